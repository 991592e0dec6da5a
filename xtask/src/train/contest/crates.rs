//! Methods of other crates. Each takes rows and gives logarithms of measured over physical time for others.

use linfa::DatasetBase;
use linfa::traits::Fit as _;
use linfa_elasticnet::ElasticNet;
use ndarray::{Array1, Array2, ShapeBuilder as _};
use perpetual::objective::Objective;
use perpetual::{Matrix, PerpetualBooster};
use smartcore::ensemble::random_forest_regressor::{RandomForestRegressor, RandomForestRegressorParameters};
use smartcore::linalg::basic::matrix::DenseMatrix;
use smartcore::xgboost::{XGRegressor, XGRegressorParameters};

use super::Fitted;
use super::rows::{Columns, Encoder, Rows};

/// Linear regression with a small square penalty (linfa, coordinate descent).
pub(super) fn linear(rows: &Rows) -> Result<Fitted, String> {
    let encoder = Encoder::of(rows);
    let width = encoder.width();
    let inputs: Vec<f64> = encoder.values(rows).into_iter().map(f64::from).collect();
    let by_row = Array2::from_shape_vec((rows.len(), width), inputs).map_err(|error| error.to_string())?;
    let mut by_column = Array2::zeros((rows.len(), width).f());
    by_column.assign(&by_row);
    let data = DatasetBase::new(by_column, Array1::from_vec(rows.targets()));
    let parameters = ElasticNet::<f64>::ridge().penalty(1e-4).max_iterations(300).tolerance(1e-3);
    let model = parameters.fit(&data).map_err(|error| error.to_string())?;
    let bytes = Some(4 * (width + 1));
    let predict = move |rows: &Rows| {
        let values = encoder.values(rows);
        let value = |row: &[f32]| -> f64 {
            let products = row.iter().zip(model.hyperplane()).map(|(value, weight)| f64::from(*value) * weight);
            model.intercept() + products.sum::<f64>()
        };
        values.chunks_exact(width.max(1)).map(value).collect()
    };
    Ok(Fitted { predict: Box::new(predict), bytes })
}

/// Trees of the random forest.
pub(super) const FOREST_TREES: usize = 60;

/// Random forest (smartcore): a third of the features at each split, three rows in a leaf.
pub(super) fn forest(rows: &Rows, seed: u64) -> Result<Fitted, String> {
    let columns = Columns::of(rows);
    let parameters = RandomForestRegressorParameters::default()
        .with_n_trees(FOREST_TREES)
        .with_m(columns.width().div_ceil(3))
        .with_min_samples_leaf(3)
        .with_seed(seed);
    let targets: Vec<f32> = rows.targets().into_iter().map(|target| target as f32).collect();
    let model = RandomForestRegressor::fit(&dense(&columns, rows)?, &targets, parameters);
    let model = model.map_err(|error| error.to_string())?;
    let predict = move |rows: &Rows| {
        let predicted = dense(&columns, rows).ok().and_then(|inputs| model.predict(&inputs).ok()).unwrap_or_default();
        predicted.into_iter().map(f64::from).collect()
    };
    Ok(Fitted { predict: Box::new(predict), bytes: None })
}

/// Rounds of smartcore's boosting.
pub(super) const BOOSTING_ROUNDS: usize = 120;
/// The most rows that each of its trees is grown on: it sorts all rows of a node by every feature, at every node.
pub(super) const BOOSTING_ROWS: usize = 2_000;

/// Gradient boosting (smartcore): exact cuts, depth 6, no drawing of features, no histogram.
pub(super) fn boosting(rows: &Rows, seed: u64) -> Result<Fitted, String> {
    let columns = Columns::of(rows);
    let targets: Vec<f32> = rows.targets().into_iter().map(|target| target as f32).collect();
    let mean = targets.iter().copied().map(f64::from).sum::<f64>() / targets.len().max(1) as f64;
    let mut parameters = XGRegressorParameters::default()
        .with_n_estimators(BOOSTING_ROUNDS)
        .with_learning_rate(0.12)
        .with_min_child_weight(5)
        .with_subsample((BOOSTING_ROWS as f64 / rows.len() as f64).min(1.0))
        .with_seed(seed);
    parameters.base_score = mean;
    let model = XGRegressor::fit(&dense(&columns, rows)?, &targets, parameters).map_err(|error| error.to_string())?;
    let predict = move |rows: &Rows| {
        let predicted = dense(&columns, rows).ok().and_then(|inputs| model.predict(&inputs).ok()).unwrap_or_default();
        predicted.into_iter().map(f64::from).collect()
    };
    Ok(Fitted { predict: Box::new(predict), bytes: None })
}

fn dense(columns: &Columns, rows: &Rows) -> Result<DenseMatrix<f32>, String> {
    DenseMatrix::new(rows.len(), columns.width(), columns.values(rows), true).map_err(|error| error.to_string())
}

/// Perpetual's budget: its one setting.
pub(super) const BUDGET: f32 = 1.0;
/// Gigabytes that it may use. Without a limit it looks at what is free, and trees would depend on the machine.
const MEMORY_LIMIT: f32 = 1.5;

/// Gradient boosting that stops by itself (perpetual).
pub(super) fn perpetual(rows: &Rows, seed: u64) -> Result<Fitted, String> {
    let columns = Columns::of(rows);
    let inputs: Vec<f64> = columns.values(rows);
    let mut model = PerpetualBooster::default()
        .set_objective(Objective::SquaredLoss)
        .set_budget(BUDGET)
        .set_num_threads(Some(1))
        .set_memory_limit(Some(MEMORY_LIMIT))
        .set_seed(seed);
    let matrix = Matrix::new(&inputs, rows.len(), columns.width());
    model.fit(&matrix, &rows.targets(), None, None).map_err(|error| error.to_string())?;
    let predict = move |rows: &Rows| {
        let inputs: Vec<f64> = columns.values(rows);
        model.predict(&Matrix::new(&inputs, rows.len(), columns.width()), false)
    };
    Ok(Fitted { predict: Box::new(predict), bytes: None })
}

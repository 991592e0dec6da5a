//! How a model was compiled: optimizer, loss, and the precision that its dtype policies ask for.

use super::container::Contents;
use super::json::{Json, parse};

/// What a file says of training.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Training {
    /// Optimizer, as `--optimizer` names it, where it is one of those.
    pub optimizer: Option<String>,
    /// Optimizer, as Keras names it.
    pub optimizer_class: Option<String>,
    /// Loss, as Keras names it; several are joined by commas.
    pub loss: Option<String>,
    /// `mixed_float16` where that is the policy of most layers.
    pub policy: Option<String>,
}

impl Training {
    pub(super) fn of(json: &Json<'_>, contents: &Contents, policies: &[(String, usize)]) -> Self {
        let policy = policies.iter().max_by_key(|(_, count)| *count).map(|(name, _)| name.clone());
        let mut training = Self { policy: policy.filter(|name| name != "float32"), ..Self::default() };
        if let Some(compiled) = json.given("compile_config") {
            training.read(compiled);
        }
        if let Some(text) = &contents.training
            && let Ok((compiled, _)) = parse(text)
        {
            training.read(&compiled);
        }
        training
    }

    fn read(&mut self, compiled: &Json<'_>) {
        let optimizer = compiled.given("optimizer").or_else(|| compiled.given("optimizer_config"));
        if let Some(optimizer) = optimizer {
            let class = optimizer.text().or_else(|| optimizer.get("class_name")?.text());
            self.optimizer_class = class.map(str::to_owned);
            self.optimizer = class.and_then(|class| known(class, optimizer));
        }
        self.loss = compiled.given("loss").and_then(names);
    }
}

/// An optimizer by the name of its option; a loss-scaling one is what it wraps.
fn known(class: &str, json: &Json<'_>) -> Option<String> {
    const DEPTH: usize = 4;
    let mut json = json;
    let mut class = class.to_owned();
    for _ in 0..DEPTH {
        let inner = json.get("config").and_then(|config| config.given("inner_optimizer"));
        let Some(inner) = inner.filter(|_| class.contains("LossScale")) else { break };
        class = inner.get("class_name").and_then(Json::text)?.to_owned();
        json = inner;
    }
    let class = class.rsplit('>').next().unwrap_or(&class).to_lowercase();
    let momentum = json.get("config").and_then(|config| config.get("momentum")).and_then(Json::real).unwrap_or(0.0);
    Some(
        match &*class {
            "sgd" if momentum > 0.0 => "momentum",
            "sgd" => "sgd",
            "adam" | "nadam" | "adamax" => "adam",
            "adamw" => "adamw",
            "rmsprop" => "rmsprop",
            "adagrad" => "adagrad",
            "adadelta" => "adadelta",
            "lamb" => "lamb",
            "lion" => "lion",
            _ => return None,
        }
        .to_owned(),
    )
}

/// Names of losses: one, a list, or one for each output.
fn names(json: &Json<'_>) -> Option<String> {
    if let Some(name) = json.text() {
        return Some(name.to_owned());
    }
    if let Some(items) = json.list() {
        let names: Vec<String> = items.iter().filter_map(Json::text).map(str::to_owned).collect();
        return (!names.is_empty()).then(|| names.join(", "));
    }
    if let Some(class) = json.get("class_name").and_then(Json::text) {
        let config = json.get("config");
        let name = config.and_then(Json::text).or_else(|| config?.get("name")?.text());
        return Some(name.unwrap_or(class).to_owned());
    }
    let names: Vec<String> = json
        .members()
        .iter()
        .filter_map(|(_, loss)| {
            let class = loss.get("class_name").and_then(Json::text);
            let name = loss.get("config").and_then(|config| config.get("name")).and_then(Json::text);
            loss.text().or(name).or(class).map(str::to_owned)
        })
        .collect();
    (!names.is_empty()).then(|| names.join(", "))
}

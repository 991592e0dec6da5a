use std::path::Path;

use super::*;

/// Ids of devices in the measured tables and in the lists of boards that come with them.
const OF_THE_DATA: &str = "
    a10 a100-pcie-40gb a100-pcie-80gb a100-sxm4-40gb a100-sxm4-80gb a100-unknown a30 a40 b200 b300 gb200 gb300 gh200
    gtx-1060 gtx-1070 gtx-1080 gtx-1080-ti gtx-850m gtx-970 gtx-980 gtx-980-ti h100-nvl-94gb h100-pcie-80gb
    h100-sxm5-80gb h200 jetson-nano jetson-tx1 jetson-tx2 jetson-xavier k40 k520 k80 l4 l40 l40s m40 m60 mi100 mi210 mi25
    mi250 mi250x mi300x mi50 mi60 p100-pcie-12gb p100-pcie-16gb p100-sxm2-16gb p4 p40 quadro-m4000 quadro-p2000
    quadro-p4000 quadro-p5000 quadro-p6000 quadro-rtx-6000 quadro-rtx-8000 rtx-2060 rtx-2070 rtx-2070-max-q rtx-2080
    rtx-2080-max-q rtx-2080-super-max-q rtx-2080-ti rtx-3060 rtx-3060-12gb rtx-3070 rtx-3080 rtx-3080-ti-laptop rtx-3090
    rtx-4080 rtx-4090 rtx-5090 rtx-6000-ada rtx-a4000 rtx-a5000 rtx-a6000 rtx-pro-6000 rtx-pro-6000-server rx-6800-xt
    rx-vega-56 t4 titan-rtx titan-v titan-x-maxwell titan-x-pascal titan-xp v100-pcie-16gb v100-pcie-32gb v100-sxm2-16gb
    v100-sxm2-32gb v100-sxm3-32gb v100-unknown vega-fe-16gb";

fn device(id: &str) -> &'static Device {
    find(id).unwrap().device
}

fn user(text: &str) -> Result<Vec<Device>, String> {
    user::read(Path::new("card.toml"), text).map_err(|error| error.to_string())
}

#[test]
fn the_built_in_files_are_sound_and_complete() {
    let devices = catalogue::parse().unwrap();
    assert!(devices.devices().len() > 120);
    for device in devices.devices() {
        assert_eq!(device.assumed, Vec::<&str>::new(), "{}", device.id);
    }
    assert!(interconnect::parse().unwrap().len() > 20);
}

#[test]
fn every_device_of_the_data_is_known() {
    for id in OF_THE_DATA.split_whitespace() {
        assert!(find(id).is_ok(), "{id}");
    }
}

#[test]
fn bare_names_are_the_commonest_board() {
    let expected = [
        ("v100", "v100-sxm2-16gb"),
        ("p100", "p100-pcie-16gb"),
        ("a100", "a100-sxm4-40gb"),
        ("H100", "h100-sxm5-80gb"),
        ("h200", "h200"),
        ("b200", "b200"),
        ("t4", "t4"),
        ("l4", "l4"),
        ("a10", "a10"),
        ("k80", "k80"),
        ("m60", "m60"),
        ("4090", "rtx-4090"),
    ];
    for (name, id) in expected {
        let found = find(name).unwrap();
        assert_eq!(found.device.id, id);
        assert!(!found.uncertain);
    }
    let note = find("H100").unwrap().note().unwrap();
    assert_eq!(note, "'h100' is taken as h100-sxm5-80gb; there are also h100-pcie-80gb, h100-nvl-94gb");
    assert_eq!(find("t4").unwrap().note(), None);
    assert_eq!(find("v100-sxm2-16gb").unwrap().note(), None);
}

#[test]
fn a_board_that_is_not_known_widens_the_interval() {
    let found = find("a100-unknown").unwrap();
    assert!(found.uncertain && found.variants.contains(&"a100-pcie-40gb"));
}

#[test]
fn an_unknown_name_gets_the_nearest_three() {
    let nearest = |name: &str| find(name).unwrap_err().nearest;
    assert_eq!(nearest("RTX 4070 Ti SUPER"), ["rtx-4070-ti-super", "rtx-4070-ti", "rtx-4070"]);
    assert_eq!(nearest("NVIDIA GeForce GTX 1080Ti").first().map(String::as_str), Some("gtx-1080-ti"));
    assert_eq!(nearest("7900xtx").first().map(String::as_str), Some("rx-7900-xtx"));
    assert_eq!(nearest("v100-sxm2").len(), 3);
    assert!(nearest("v100-sxm2").iter().all(|id| id.starts_with("v100-sxm")));
    for odd in ["", "größe", "\u{1b}[31m", "-"] {
        assert_eq!(nearest(odd).len(), 3, "{odd}");
    }
}

#[test]
fn half_precision_has_the_rate_of_its_chip() {
    let ratio = |id: &str| {
        let plain = device(id).plain;
        plain.fp16.unwrap() / plain.fp32.unwrap()
    };
    for id in ["gtx-1080-ti", "titan-xp", "p40", "quadro-p6000"] {
        assert_eq!(device(id).board.chip, "GP102");
        assert!((ratio(id) * 64.0 - 1.0).abs() < 0.01, "{id}");
        assert!(device(id).matrix_tflops(Precision::Fp16) < device(id).matrix_tflops(Precision::Fp32));
    }
    for id in ["p100-pcie-16gb", "p100-sxm2-16gb", "v100-sxm2-16gb", "t4"] {
        assert!((ratio(id) - 2.0).abs() < 0.01, "{id}");
    }
    // No fp16 arithmetic: halves are computed as fp32.
    assert!((device("k80").plain_tflops(Precision::Fp16) - 4.368).abs() < 0.01);
}

#[test]
fn tensor_cores_start_with_volta() {
    for device in catalogue().devices() {
        let chip = device.board.chip.as_str();
        let older = ["kepler", "maxwell", "pascal", "gcn5", "rdna2"].contains(&device.board.architecture.as_str());
        // The GTX cards of Turing go without.
        let without = older || matches!(chip, "TU116" | "TU117");
        assert_eq!(device.has_tensor_cores(), !without, "{}", device.id);
        assert_eq!(device.tensor.fp16.is_some(), !without, "{}", device.id);
    }
    assert!((device("v100").matrix_tflops(Precision::Fp16) - 125.0).abs() < 1e-9);
    assert!(device("v100").tensor.bf16.is_none() && device("a100").tensor.bf16.is_some());
    assert!(device("a100").tensor.fp8.is_none() && device("l4").tensor.fp8.is_some());
}

#[test]
fn figures_lie_where_boards_lie() {
    for device in catalogue().devices() {
        let Device { id, board, memory, plain, .. } = device;
        assert!((2012..2027).contains(&board.year), "{id}");
        assert!(memory.visible_gib <= memory.gib && memory.visible_gib > 0.9 * memory.gib, "{id}");
        assert!((20.0..10_000.0).contains(&memory.gb_s), "{id}");
        let lanes = plain.fp32.unwrap() * 1e6 / (2.0 * board.boost_mhz * f64::from(board.sms));
        assert!((60.0..200.0).contains(&lanes), "{id}: {lanes}");
        for precision in Precision::ALL {
            let (plain, tensor) = (device.plain.of(precision), device.tensor.of(precision));
            assert!(tensor.unwrap_or(f64::MAX) >= plain.unwrap_or_default(), "{id} {precision:?}");
            if let Some(seen) = device.reached.products.of(precision) {
                // Boards run above the rated clock, by some percent.
                assert!(seen < 1.15 * device.matrix_tflops(precision), "{id} {precision:?}");
            }
        }
        assert!(device.reached.copy_gb_s.unwrap_or_default() <= memory.gb_s, "{id}");
        let links = &device.links;
        assert!(find_interconnect(&links.interconnect).is_ok(), "{id}");
        assert_eq!(links.bridge.is_some(), links.bridge_count > 0, "{id}");
    }
}

#[test]
fn links_of_known_boards_have_their_bandwidth() {
    let total = |id: &str| {
        let links = &device(id).links;
        f64::from(links.count) * find_interconnect(&links.interconnect).unwrap().gb_s
    };
    let expected =
        [("p100-sxm2-16gb", 80.0), ("v100", 150.0), ("a100", 300.0), ("h100", 450.0), ("b200", 900.0), ("t4", 15.8)];
    for (id, gb_s) in expected {
        assert!((total(id) - gb_s).abs() < 1e-9, "{id}");
    }
    assert_eq!(find_interconnect("NVSwitch3").unwrap().kind, Kind::Switch);
    assert!(find_interconnect("nvlink9").unwrap_err().contains("nearest: nvlink"));
}

#[test]
fn every_figure_has_a_source() {
    let v100 = device("v100");
    assert_eq!(v100.sources.of("board.sms"), Source::Quoted);
    assert_eq!(v100.sources.of("board.sustained_mhz"), Source::Recalled);
    assert_eq!(v100.sources.of("reached.fp16"), Source::Measured);
    assert_eq!(device("l4").sources.of("board.sms"), Source::Measured);
}

const CARD: &str = "[device.mine]\nname = 'Mine'\n\
    board = { chip = 'X1', architecture = 'new', year = 2026, sms = 100, boost_mhz = 2000, sustained_mhz = 1800, power_w = 300 }\n\
    memory = { gib = 32, gb_s = 1000, l2_mib = 64 }\nlinks = { interconnect = 'pcie5', count = 1 }\n\
    plain = { fp32 = 51.2, fp16 = 51.2 }\ntensor = { fp16 = 400 }\nquoted = 'plain.fp32 memory.gb_s'\n";

#[test]
fn a_card_of_a_user_has_the_form_of_the_catalogue() {
    let cards = user(CARD).unwrap();
    let [card] = cards.as_slice() else { panic!("one card") };
    assert_eq!((card.id.as_str(), card.board.sms, card.assumed.len()), ("mine", 100, 0));
    assert_eq!(card.sources.of("memory.gb_s"), Source::Quoted);
    assert_eq!(card.sources.of("memory.gib"), Source::Given);
    assert!(user(include_str!("../../predictors/devices.toml")).unwrap_err().contains("unknown field 'alias'"));
}

#[test]
fn bandwidth_peak_and_memory_are_enough_and_the_rest_is_said_to_be_assumed() {
    let cards = user("[device.mine]\nmemory = { gib = 16, gb_s = 672 }\nplain = { fp32 = 44.1 }\n").unwrap();
    let [card] = cards.as_slice() else { panic!("one card") };
    assert!(card.assumed.contains(&"board.sms") && card.assumed.contains(&"links.interconnect"));
    assert_eq!((card.name.as_str(), card.board.sms), ("mine", 101));
}

#[test]
fn what_is_wrong_in_a_card_is_said_with_line_and_column() {
    let replaced = |old: &str, new: &str| {
        assert!(CARD.contains(old), "{old}");
        user(&CARD.replace(old, new)).unwrap_err()
    };
    assert_eq!(replaced("gb_s = 1000, ", ""), "card.toml:4:10: the field 'memory.gb_s' is missing");
    assert_eq!(replaced("fp32 = 51.2, ", ""), "card.toml:6:9: the field 'plain.fp32' is missing");
    assert_eq!(
        replaced("gb_s = 1000", "gb_s = -1"),
        "card.toml:4:29: memory.gb_s = -1 cannot be: it lies between 10 and 50000 GB/s"
    );
    for (old, new, part) in [
        ("gib = 32", "gib = 0", "between 0.5 and 2048 GiB"),
        ("gib = 32", "gib = 32768", "between 0.5 and 2048 GiB"),
        ("gib = 32", "gib = nan", "cannot be"),
        ("gib = 32", "gib = inf", "cannot be"),
        ("gib = 32", "gib = '32'", "memory.gib is a number"),
        ("gb_s = 1000", "gb_s = 1", "between 10 and 50000 GB/s"),
        ("gb_s = 1000", "gb_s = 1_000_000", "between 10 and 50000 GB/s"),
        ("boost_mhz = 2000", "boost_mhz = 2", "between 100 and 6000 MHz"),
        ("fp32 = 51.2", "fp32 = 51200", "between 0.05 and 1000 TFLOPS"),
        ("fp32 = 51.2", "fp32 = 0.0512", "cannot be"),
        ("fp32 = 51.2", "fp32 = 1.0", "fused multiply-adds a clock"),
        ("sms = 100", "sms = 1.5", "whole number"),
        ("sms = 100", "sms = 0", "between 1 and 2048"),
        ("fp16 = 400", "fp16 = 40", "below plain.fp16"),
        ("sustained_mhz = 1800", "sustained_mhz = 180", "cannot be with a boost clock"),
        ("sms = 100", "sm = 100", "unknown field 'board.sm'; did you mean 'sms'?"),
        ("tensor =", "tensors =", "unknown field 'tensors'; did you mean 'tensor'?"),
        ("'pcie5'", "'pcie9'", "no interconnect is called 'pcie9'"),
        ("'plain.fp32 memory.gb_s'", "'plain.fp33'", "quoted names 'plain.fp33'"),
        ("device.mine", "device.'my card'", "is no id"),
        ("[device.mine]", "", "unknown field"),
        ("name = 'Mine'", "name = ", ""),
        ("name = 'Mine'", "name = 3", "name is a text"),
    ] {
        let message = replaced(old, new);
        assert!(message.contains(part), "{message}");
        let place = message.strip_prefix("card.toml:").unwrap();
        assert!(place.split(':').take(2).all(|part| part.parse::<usize>().is_ok()), "{message}");
    }
    assert_eq!(user("").unwrap_err(), "card.toml:1:1: the field 'device.ID' is missing");
    assert!(user("device = 3\n").unwrap_err().contains("device is a table"));
    assert!(user("[device]\nmine = 3\n").unwrap_err().contains("is a table"));
    let twice = format!("{CARD}\n{CARD}");
    assert!(user(&twice).is_err());
}

#[test]
fn a_file_of_devices_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    assert!(load_user(folder.path()).is_err());
    assert!(load_user(&folder.path().join("none.toml")).is_err());
    let path = folder.path().join("card.toml");
    std::fs::write(&path, CARD).unwrap();
    assert_eq!(load_user(&path).unwrap().len(), 1);
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(load_user(&path).unwrap_err().to_string().contains("UTF-8"));
}

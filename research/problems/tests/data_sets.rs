//! Checks of data folders and conversions of originals: against scikit-learn and scipy on small
//! originals, against the published tables if available, and on hostile bytes.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

use std::path::Path;

use fedbo_research_problems::data_sets::{
    ConvertedFile, FileState, OriginalError, SetReport, SetState, check, conversions, data_sets,
};
use fedbo_research_problems::{N_FIELDS, read_fields};
use fedbo_testkit::{made_up, published_data};

/// Written by `originals/make.py`: 29 small fields with synthetic numbers, compressed by scipy.
const SMALL: &[u8] = include_bytes!("originals/small.mat");

fn convert(set: &str, source: &Path) -> Result<Vec<ConvertedFile>, OriginalError> {
    let conversion = conversions().iter().find(|each| each.data_set == set).unwrap();
    conversion.run(source)
}

fn convert_mat(bytes: &[u8]) -> Result<String, OriginalError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("LandmineData.mat"), bytes).unwrap();
    let files = convert("landmine", folder.path())?;
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].path, "landmine/landmine.csv");
    Ok(files[0].text.clone())
}

fn report(folder: &Path, set: &str) -> SetReport {
    check(folder).unwrap().into_iter().find(|report| report.set.name == set).unwrap()
}

/// Both halves of every field are in scikit-learn's order, with numbers as Python writes them.
#[test]
fn fields_are_divided_as_by_scikit_learn_to_the_byte() {
    assert_eq!(convert_mat(SMALL).unwrap(), include_str!("originals/small.csv"));
}

/// Returns an uncompressed level 5 MAT-file with two 1 × 29 cell arrays.
fn mat_file(fields: &[(Vec<Vec<f64>>, Vec<u8>)]) -> Vec<u8> {
    fn element(kind: u32, data: &[u8]) -> Vec<u8> {
        let size = u32::try_from(data.len()).unwrap();
        let mut bytes = [kind.to_le_bytes(), size.to_le_bytes()].concat();
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }
    fn array(class: u8, name: &str, rows: usize, columns: usize, content: &[u8]) -> Vec<u8> {
        let sizes = [rows, columns].map(|size| u32::try_from(size).unwrap().to_le_bytes()).concat();
        let parts = [
            element(6, &[class, 0, 0, 0, 0, 0, 0, 0]),
            element(5, &sizes),
            element(1, name.as_bytes()),
            content.to_vec(),
        ];
        element(14, &parts.concat())
    }
    let mut bytes = vec![b' '; 124];
    bytes.extend([0, 1, b'I', b'M']);
    let features = fields.iter().flat_map(|(features, _)| {
        let entry = |column: usize| features.iter().flat_map(move |row| row[column].to_le_bytes());
        let data: Vec<u8> = (0..9).flat_map(entry).collect();
        array(6, "", features.len(), 9, &element(9, &data))
    });
    let labels =
        fields.iter().flat_map(|(_, labels)| array(9, "", labels.len(), 1, &element(2, labels)));
    bytes.extend(array(1, "feature", 1, fields.len(), &features.collect::<Vec<u8>>()));
    bytes.extend(array(1, "label", 1, fields.len(), &labels.collect::<Vec<u8>>()));
    bytes
}

/// Returns the fields of a table in the order of the original, by `mat_row`.
fn originals(text: &str) -> Vec<(Vec<Vec<f64>>, Vec<u8>)> {
    let mut rows: Vec<(usize, usize, u8, Vec<f64>)> = Vec::new();
    for record in csv::Reader::from_reader(text.as_bytes()).records() {
        let record = record.unwrap();
        let features = (3..12).map(|column| record[column].parse().unwrap()).collect();
        let of = |column: usize| record[column].parse::<usize>().unwrap();
        rows.push((of(0), of(12), record[2].parse().unwrap(), features));
    }
    rows.sort_by_key(|(field, row, ..)| (*field, *row));
    let mut fields = vec![(Vec::new(), Vec::new()); N_FIELDS];
    for (field, row, label, features) in rows {
        assert_eq!(fields[field].0.len(), row);
        fields[field].0.push(features);
        fields[field].1.push(label);
    }
    fields
}

/// The published table, restored to the order of its original and split again, reproduces its bytes
/// except for `mat_row`: two locations of field 2 are equal, and the published table has them
/// swapped.
#[test]
#[ignore = "data: run by cargo xtask test --all"]
fn the_published_landmine_table_is_made_anew() {
    let path = published_data("landmine").join("landmine/landmine.csv");
    let published = std::fs::read_to_string(path).unwrap();
    let made = convert_mat(&mat_file(&originals(&published))).unwrap();
    let without_rows = |text: &str| {
        let cut = text.lines().map(|line| line.rsplit_once(',').unwrap().0.to_owned());
        cut.collect::<Vec<String>>()
    };
    assert!(without_rows(&made) == without_rows(&published));
    let differing =
        made.lines().zip(published.lines()).filter(|(made, published)| made != published);
    assert_eq!(differing.count(), 2);
}

/// The computed grid equals scikit-learn's values to the six digits of the published table, at the
/// same points.
#[test]
#[ignore = "data: run by cargo xtask test --all"]
fn the_computed_grid_is_the_published_one() {
    let data = published_data("landmine");
    let folder = tempfile::tempdir().unwrap();
    for file in convert("landmine-grid", &data).unwrap() {
        let path = folder.path().join(&file.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, file.text).unwrap();
    }
    let made = fedbo_research_problems::read_landmine_grids(folder.path()).unwrap();
    let published = fedbo_research_problems::read_landmine_grids(&data).unwrap();
    assert_eq!(made.len(), published.len());
    for (made, published) in made.iter().zip(&published) {
        assert_eq!(made.points(), published.points());
        for (made, published) in made.aucs().iter().zip(published.aucs()) {
            assert!((made - published).abs() <= 1e-6, "{made} {published}");
        }
    }
}

/// `pima` and `spam` are not the authors' data, so the folder can lack them.
#[test]
#[ignore = "data: run by cargo xtask test --all"]
fn the_published_folder_is_complete() {
    for report in check(&published_data("landmine")).unwrap() {
        let may_lack = ["pima", "spam"].contains(&report.set.name);
        if may_lack && report.state() == SetState::Missing {
            continue;
        }
        assert_eq!(report.state(), SetState::Complete, "{}: {:?}", report.set.name, report.files);
    }
}

fn small() -> Vec<(Vec<Vec<f64>>, Vec<u8>)> {
    originals(include_str!("originals/small.csv"))
}

#[test]
fn an_original_that_is_another_is_refused_by_name() {
    let mut fields = small();
    assert_eq!(convert_mat(&mat_file(&fields)).unwrap(), include_str!("originals/small.csv"));
    let mut big_endian = SMALL.to_vec();
    big_endian[126..128].copy_from_slice(b"MI");
    let mut newer = SMALL.to_vec();
    newer[125] = 2;
    let labelled = |label: u8| {
        let mut fields = small();
        fields[3].1[0] = label;
        mat_file(&fields)
    };
    let mut uneven = small();
    uneven[4].1.pop();
    let mut one_sided = small();
    one_sided[5].1.fill(0);
    let mut infinite = small();
    infinite[6].0[2][1] = f64::INFINITY;
    fields.pop();
    for (bytes, expected) in [
        (b"PK".to_vec(), "not a MAT-file"),
        (vec![0; 200], "not a level 5 MAT-file"),
        (newer, "version 7.3"),
        (big_endian, "big-endian"),
        (SMALL[..128].to_vec(), "there is no variable feature"),
        (SMALL[..SMALL.len() / 2].to_vec(), "ends in the middle"),
        (mat_file(&fields), "feature has 28 cells, expected 29"),
        (labelled(2), "cell 4: row 1: label 2, expected 0 or 1"),
        (mat_file(&uneven), "cell 5: label is 9 x 1, expected 10 x 1"),
        (mat_file(&one_sided), "cell 6: 0 of 11 labels are 1"),
        (mat_file(&infinite), "cell 7: row 3, column 2: inf"),
    ] {
        let message = convert_mat(&bytes).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
        assert!(message.contains("LandmineData.mat"), "{message}");
    }
    let nowhere = convert("landmine", Path::new("/no/such")).unwrap_err().to_string();
    assert!(nowhere.contains("/no/such") && nowhere.contains("LandmineData.mat"), "{nowhere}");
    for set in ["landmine-fts", "meta-bo", "r2b2-synthetic"] {
        let folder = tempfile::tempdir().unwrap();
        let message = convert(set, folder.path()).unwrap_err().to_string();
        assert!(message.contains("a clone of daizhongxiang/"), "{message}");
    }
}

/// A truncated original, or one with any byte changed, gives an error or fields, but never a panic
/// or excessive memory use.
#[test]
fn damaged_originals_are_errors_or_fields() {
    let plain = mat_file(&small());
    for whole in [SMALL, &plain] {
        let step = whole.len() / 300;
        for end in (0..whole.len()).step_by(step) {
            assert!(convert_mat(&whole[..end]).is_err(), "cut after {end} bytes");
        }
        for place in (0..whole.len()).step_by(step) {
            for change in [0x01, 0x80, 0xff] {
                let mut damaged = whole.to_vec();
                damaged[place] ^= change;
                if let Ok(text) = convert_mat(&damaged) {
                    assert!(text.starts_with("field,split,label"));
                }
            }
        }
    }
}

/// Uses a few kilobytes that inflate to a hundred megabytes.
#[test]
fn an_original_that_inflates_without_end_is_refused() {
    use std::io::Write as _;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..100 {
        encoder.write_all(&vec![0; 1 << 20]).unwrap();
    }
    let packed = encoder.finish().unwrap();
    let mut bytes = SMALL[..128].to_vec();
    bytes.extend(15_u32.to_le_bytes());
    bytes.extend(u32::try_from(packed.len()).unwrap().to_le_bytes());
    bytes.extend(packed);
    let message = convert_mat(&bytes).unwrap_err().to_string();
    assert!(message.contains("more than 16777216 bytes once inflated"), "{message}");
}

/// Returns a workspace in the format of R's `save(..., version = 2, compress = FALSE)`. It contains
/// one data frame with columns of numbers and a factor at the end. `class` is the class of the
/// value.
fn workspace(name: &str, class: &str, table: &str, (factor, levels): (&str, [&str; 2])) -> Vec<u8> {
    fn word(n: usize) -> [u8; 4] {
        u32::try_from(n).unwrap().to_be_bytes()
    }
    fn text(text: &str) -> Vec<u8> {
        [&[0, 4, 0, 9][..], &word(text.len()), text.as_bytes()].concat()
    }
    fn texts(all: &[&str]) -> Vec<u8> {
        let each = all.iter().flat_map(|each| text(each));
        [&[0, 0, 0, 16][..], &word(all.len()), &each.collect::<Vec<u8>>()].concat()
    }
    /// Returns a pair with a new symbol as its tag.
    fn pair(tag: &str, value: &[u8]) -> Vec<u8> {
        [&[0, 0, 4, 2, 0, 0, 0, 1][..], &text(tag), value].concat()
    }
    const END: [u8; 4] = [0, 0, 0, 254];
    let mut lines = table.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').skip(1).collect();
    let mut columns = vec![Vec::new(); names.len()];
    let mut codes = Vec::new();
    let mut n_rows = 0;
    for line in lines {
        let mut cells = line.split(',');
        codes.extend(word(if cells.next() == Some("1") { 2 } else { 1 }));
        for (column, cell) in columns.iter_mut().zip(cells) {
            column.extend(cell.parse::<f64>().unwrap().to_be_bytes());
        }
        n_rows += 1;
    }
    let mut bytes = b"RDX2\nX\n\0\0\0\x02\0\x03\x06\0\0\x02\x03\0".to_vec();
    let mut frame = [&[0, 0, 3, 19][..], &word(columns.len() + 1)].concat();
    for column in columns {
        frame.extend([&[0, 0, 0, 14][..], &word(n_rows), &column].concat());
    }
    frame.extend([&[0, 0, 3, 13][..], &word(n_rows), &codes].concat());
    frame.extend(
        [pair("levels", &texts(&levels)), pair("class", &texts(&["factor"])), END.to_vec()]
            .concat(),
    );
    let names: Vec<&str> = names.into_iter().chain([factor]).collect();
    frame.extend(pair("names", &texts(&names)));
    // The symbol `class` is the third one written, after the variable's name and levels.
    frame.extend([&[0, 0, 4, 2, 0, 0, 3, 255][..], &texts(&[class]), &END].concat());
    bytes.extend([pair(name, &frame), END.to_vec()].concat());
    bytes
}

const PIMA: (&str, &str, (&str, [&str; 2])) =
    ("PimaIndiansDiabetes", "data.frame", ("diabetes", ["neg", "pos"]));

/// Returns a synthetic workspace with the names, shape and sums of the published one, and the table
/// expected from it.
fn made_up_pima() -> (Vec<u8>, String) {
    let (name, class, label) = PIMA;
    let table = made_up::patients_csv();
    (workspace(name, class, &table, label), table)
}

fn convert_rda(set: &str, bytes: &[u8]) -> Result<ConvertedFile, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.rda");
    std::fs::write(&path, bytes).unwrap();
    let files = convert(set, &path).map_err(|error| error.to_string())?;
    assert_eq!(files.len(), 1);
    Ok(files[0].clone())
}

#[test]
fn data_frames_of_r_become_tables_that_are_complete() {
    use std::io::Write as _;
    let (patients, patients_csv) = made_up_pima();
    let emails_file = data_sets().into_iter().find(|set| set.name == "spam").unwrap();
    assert_eq!(emails_file.files[0].path, "spam/spam.csv");
    let names: Vec<String> =
        (1..=48).map(|n| format!("word{n}")).chain((1..=9).map(|n| format!("other{n}"))).collect();
    let refused = convert_rda(
        "spam",
        &workspace(
            "spam",
            "data.frame",
            &made_up::emails_csv(&names),
            ("type", ["nonspam", "spam"]),
        ),
    );
    assert!(refused.unwrap_err().contains("there is no column make"));
    let names: Vec<String> = EMAIL_COLUMNS.split(' ').map(str::to_owned).collect();
    let emails_csv = made_up::emails_csv(&names);
    let emails = workspace("spam", "data.frame", &emails_csv, ("type", ["nonspam", "spam"]));

    let data = tempfile::tempdir().unwrap();
    for (set, bytes, table, rows) in
        [("pima", &patients, &patients_csv, 768), ("spam", &emails, &emails_csv, 4601)]
    {
        let file = convert_rda(set, bytes).unwrap();
        assert_eq!((&file.text == table, file.rows), (true, rows), "{set}");
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        assert_eq!(convert_rda(set, &encoder.finish().unwrap()).unwrap(), file, "{set}");
        assert_eq!(report(data.path(), set).state(), SetState::Missing);
        write(data.path(), &file.path, &file.text);
        assert_eq!(report(data.path(), set).files, [FileState::Complete { rows }]);
    }
    assert_eq!(fedbo_research_problems::read_patients(data.path()).unwrap().n_positive(), 268);
    assert_eq!(fedbo_research_problems::read_emails(data.path()).unwrap().n_positive(), 1813);
    // With one changed value it is no longer the published table.
    write(data.path(), "pima/pima.csv", &patients_csv.replacen("\n1,", "\n1,1", 1));
    assert_eq!(report(data.path(), "pima").state(), SetState::Malformed);
}

const EMAIL_COLUMNS: &str = "make address all num3d our over remove internet order mail receive will people report addresses free business \
    email you credit your font num000 money hp hpl george num650 lab labs telnet num857 data num415 num85 technology num1999 parts pm \
    direct cs meeting original project re edu table conference charSemicolon charRoundbracket charSquarebracket charExclamation \
    charDollar charHash capitalAve capitalLong capitalTotal";

#[test]
fn another_workspace_of_r_is_refused_by_name() {
    let (good, table) = made_up_pima();
    let (name, class, label) = PIMA;
    let with = |old: &str, new: &str| workspace(name, class, &table.replacen(old, new, 1), label);
    let first = table.lines().nth(1).unwrap();
    let (before, _) = first.rsplit_once(',').unwrap();
    for (bytes, expected) in [
        (b"BZh91AY&SY".to_vec(), "compressed by bzip2: `bzip2 -dc FILE > PLAIN.rda`"),
        (b"\xfd7zXZ\0\0\x01".to_vec(), "compressed by xz: `xz -dc FILE > PLAIN.rda`"),
        (
            b"a,b\n1,2\n".to_vec(),
            "in R, save(PimaIndiansDiabetes, file = \"PimaIndiansDiabetes.rda\")",
        ),
        (Vec::new(), "not a file written by R's `save`"),
        (good[..good.len() / 2].to_vec(), "do not fit into the"),
        (
            workspace("Sonar", class, &table, label),
            "there is no data frame PimaIndiansDiabetes; it has Sonar",
        ),
        (workspace(name, "list", &table, label), "PimaIndiansDiabetes is not a data frame"),
        (workspace(name, class, &table, ("class", label.1)), "there is no column diabetes"),
        (
            workspace(name, class, &table, ("diabetes", ["no", "yes"])),
            "has the levels [\"no\", \"yes\"]",
        ),
        (with("glucose", "sugar"), "there is no column glucose"),
        (with(first, &format!("{before},12")), "row 1: age = 12, expected a number from 21 to 81"),
        (
            with(first, &format!("{before},NaN")),
            "row 1: age = NaN, expected a number from 21 to 81",
        ),
        (with(&format!("{first}\n"), ""), "767 rows, expected 768"),
        (with(first, &format!("{before},80")), "add up to"),
    ] {
        let message = convert_rda("pima", &bytes).unwrap_err();
        assert!(message.contains(expected), "{message}");
        assert!(message.contains("data.rda"), "{message}");
    }
    let folder = tempfile::tempdir().unwrap();
    let nowhere = convert("pima", folder.path()).unwrap_err().to_string();
    assert!(nowhere.contains("PimaIndiansDiabetes.rda") && nowhere.contains("xz -dc"), "{nowhere}");
}

/// A truncated workspace, or one with any structural byte changed, gives an error or a table, but
/// never a panic or excessive memory use.
#[test]
fn damaged_workspaces_of_r_are_errors_or_tables() {
    let (plain, _) = made_up_pima();
    let n = plain.len();
    for end in (0..n).step_by(n / 300) {
        assert!(convert_rda("pima", &plain[..end]).is_err(), "cut after {end} bytes");
    }
    // Change the header, the end with factor and attributes, and some positions in between.
    for place in (0..120).chain(n - 400..n).chain((0..n).step_by(n / 100)) {
        for change in [0x01, 0x80, 0xff] {
            let mut damaged = plain.clone();
            damaged[place] ^= change;
            if let Ok(file) = convert_rda("pima", &damaged) {
                assert!(file.text.starts_with("diabetes,pregnant,"));
            }
        }
    }
    // Nested lists.
    let mut deep = plain[..19].to_vec();
    deep.extend([0, 0, 0, 19, 0, 0, 0, 1].repeat(100_000));
    assert!(convert_rda("pima", &deep).unwrap_err().contains("nested more than 16 deep"));
}

fn write(folder: &Path, file: &str, text: &str) {
    let path = folder.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_check_tells_complete_incomplete_missing_and_malformed_sets_apart() {
    let folder = tempfile::tempdir().unwrap();
    let state = |set: &str| report(folder.path(), set).state();
    for set in data_sets() {
        assert_eq!(state(set.name), SetState::Missing, "{}", set.name);
    }
    write(folder.path(), "landmine/landmine.csv", include_str!("originals/small.csv"));
    assert_eq!(read_fields(folder.path()).unwrap().len(), N_FIELDS);
    assert_eq!(state("landmine"), SetState::Complete);
    let rows = include_str!("originals/small.csv").lines().count() - 1;
    assert_eq!(report(folder.path(), "landmine").files, [FileState::Complete { rows }]);

    let line = format!("{}\n", vec!["0.5"; 100].join(","));
    write(folder.path(), "r2b2-synthetic/game0_f1.csv", &line.repeat(100));
    assert_eq!(state("r2b2-synthetic"), SetState::Incomplete);
    let fault = |file: &str, text: &str| {
        write(folder.path(), file, text);
        let set = file.split('/').next().unwrap();
        let report = report(folder.path(), set);
        assert_eq!(report.state(), SetState::Malformed, "{file}");
        let place = report.set.files.iter().position(|each| each.path == file).unwrap();
        match &report.files[place] {
            FileState::Malformed { line, message } => (*line, message.clone()),
            other => panic!("{other:?}"),
        }
    };
    let file = "r2b2-synthetic/game1_f2.csv";
    assert_eq!(fault(file, &line.repeat(99)).0, Some(100));
    assert_eq!(fault(file, &line.repeat(101)).0, Some(101));
    let (at, message) = fault(file, &line.repeat(100).replacen("0.5", "x", 1));
    assert_eq!((at, message.as_str()), (Some(1), "column 1 = \"x\", expected a finite number"));

    let header = "field,run,k,x1,x2,auc\n";
    let (_, message) =
        fault("landmine-fts/initial_points.csv", &format!("{header}0,0,0,0,1,0.5\n"));
    assert_eq!(message, "field 0, run 0, k = 1 is missing");
    let (_, message) = fault(
        "landmine-fts/initial_points.csv",
        &format!("{header}{}", "0,0,0,0,1,0.5\n".repeat(2)),
    );
    assert!(message.contains("twice"), "{message}");
    let (_, message) =
        fault("landmine-fts/initial_points.csv", &format!("{header}0,0,0,0,1.5,0.5\n"));
    assert!(message.contains("from 0 to 1"), "{message}");
    let (line, message) =
        fault("official-results/fts_landmine_summary.csv", "method,M\nTS,0\nFTS,many\n");
    assert_eq!(line, Some(2));
    assert!(message.contains("no column mean_best50_auc"), "{message}");
    // A folder instead of a file, and a missing folder.
    std::fs::create_dir_all(folder.path().join("meta-bo/meta_observations.csv")).unwrap();
    assert_eq!(state("meta-bo"), SetState::Malformed);
    assert!(check(&folder.path().join("nowhere")).is_err());
}

#[test]
fn the_page_names_every_data_set() {
    let page = include_str!("../../../docs/data.md");
    for set in data_sets() {
        assert!(page.contains(&format!("### {}\n", set.name)), "no section on {}", set.name);
        for file in &set.files {
            // The documentation names the games' files by a pattern.
            let name = file.path.split('/').nth(1).unwrap();
            let pattern =
                ["game", "random_features"].into_iter().find(|start| name.starts_with(start));
            let name = pattern.unwrap_or(name);
            assert!(page.contains(name), "{} is not on the page", file.path);
        }
    }
    for conversion in conversions() {
        let command = format!("fedbo-research data convert {} ", conversion.data_set);
        assert!(page.contains(&command), "no example of {command}");
    }
}

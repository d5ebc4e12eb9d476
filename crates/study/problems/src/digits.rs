//! Handwritten digits of 8×8 pixels (Alpaydin & Kaynak 1998): the 1797 images of the data set's
//! test split.

/// Number of pixels in an image.
pub const N_PIXELS: usize = 64;
/// Number of digits, 0 to 9.
pub const N_DIGITS: usize = 10;
/// Images of the data set: 64 grey levels and the label, one byte each. Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten
/// Digits", UCI Machine Learning Repository (1998), doi:10.24432/C50P49, licence CC BY 4.0.
static RECORDS: &[u8] = include_bytes!("digits.bin");
/// The highest grey level. Every pixel is a whole number from 0 to this level.
const WHITE: f64 = 16.0;

/// An image with its digit.
#[derive(Clone, Debug, PartialEq)]
pub struct Digit {
    /// Grey levels in `[0,1]`, row by row.
    pub pixels: [f64; N_PIXELS],
    /// The digit, from 0 to 9.
    pub digit: usize,
}

/// Returns the images in the order of the data set. Images of one writer are consecutive.
#[must_use]
pub fn digits() -> Vec<Digit> {
    let (records, _) = RECORDS.as_chunks::<{ N_PIXELS + 1 }>();
    let digit = |record: &[u8; N_PIXELS + 1]| {
        let (pixels, label) = record.split_at(N_PIXELS);
        let mut levels = [0.0; N_PIXELS];
        for (level, &pixel) in levels.iter_mut().zip(pixels) {
            *level = f64::from(pixel) / WHITE;
        }
        Digit { pixels: levels, digit: usize::from(label[0]) }
    };
    records.iter().map(digit).collect()
}

/// Number of forms in the data set.
pub const N_FORMS: usize = 14;

/// The first image of each form, and the end of the last form.
///
/// The writers copied one preprinted form of 130 digits. The labels follow this sequence from image
/// 0 to 129 and restart at these images; up to 8 digits of a form are missing. The data set's
/// description mentions 13 writers and gives no boundaries (docs/decisions/0016).
const FORM_STARTS: [usize; N_FORMS + 1] =
    [0, 130, 256, 386, 516, 646, 776, 906, 1029, 1157, 1287, 1415, 1545, 1667, 1797];

/// Returns the images of each form, in the order of the form.
#[must_use]
pub fn forms() -> Vec<Vec<Digit>> {
    let digits = digits();
    let bounds = FORM_STARTS.iter().zip(&FORM_STARTS[1..]);
    bounds.map(|(&start, &end)| digits[start..end].to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The labels of each form match the labels of the first form, which is complete, with at most
    /// 8 missing and one misread. If a boundary were off by one image, a form would start or end
    /// with a digit of another form.
    #[test]
    fn the_forms_are_copies_of_one_sequence() {
        let forms = forms();
        let labels = |form: &[Digit]| form.iter().map(|image| image.digit).collect::<Vec<_>>();
        let sequence = labels(&forms[0]);
        assert_eq!(sequence.len(), 130);
        for form in &forms {
            let found = labels(form);
            assert!((122..=130).contains(&found.len()), "{}", found.len());
            assert!(common(&found, &sequence) + 1 >= found.len(), "{found:?}");
        }
        let misplaced = labels(&[&forms[6][1..], &forms[7][..1]].concat());
        assert!(common(&misplaced, &sequence) < misplaced.len());
    }

    /// Returns the length of the longest common subsequence.
    fn common(a: &[usize], b: &[usize]) -> usize {
        let mut lengths = vec![0; b.len() + 1];
        for x in a {
            let mut diagonal = 0;
            for (k, y) in b.iter().enumerate() {
                let above = lengths[k + 1];
                lengths[k + 1] = if x == y { diagonal + 1 } else { above.max(lengths[k]) };
                diagonal = above;
            }
        }
        lengths[b.len()]
    }

    /// Checks the counts in the data set's description, the first image (a zero), and the known sum
    /// of all grey levels.
    #[test]
    fn the_images_are_those_of_the_data_set() {
        let digits = digits();
        let mut counts = [0; N_DIGITS];
        for image in &digits {
            counts[image.digit] += 1;
        }
        assert_eq!(counts, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
        let first = digits[0].pixels.map(|level| level * WHITE);
        assert_eq!(digits[0].digit, 0);
        assert_eq!(first[..8], [0.0, 0.0, 5.0, 13.0, 9.0, 1.0, 0.0, 0.0]);
        let levels = digits.iter().flat_map(|image| image.pixels);
        assert!(levels.clone().all(|level| (0.0..=1.0).contains(&level)));
        assert!((levels.sum::<f64>() * WHITE - 561_718.0).abs() < 0.5);
    }
}

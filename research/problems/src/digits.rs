//! Handwritten digits of 8×8 pixels (Alpaydin & Kaynak 1998): the 1797 images of the data set's test part.

/// Pixels of an image.
pub(crate) const N_PIXELS: usize = 64;
/// Number of digits, 0 to 9.
pub(crate) const N_DIGITS: usize = 10;
/// The largest grey level; every pixel is a whole number from 0 to it.
const WHITE: f64 = 16.0;

/// An image, and which digit it shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Digit {
    /// Grey levels in `[0,1]`, row by row.
    pub(crate) pixels: [f64; N_PIXELS],
    /// 0 to 9.
    pub(crate) digit: usize,
}

/// The images, in the order of the data set, where those of one writer stand together.
pub(crate) fn digits() -> Vec<Digit> {
    let data = smartcore::dataset::digits::load_dataset();
    let (images, _) = data.data.as_chunks::<N_PIXELS>();
    let labelled = images.iter().zip(&data.target);
    labelled
        .map(|(image, &label)| Digit {
            pixels: image.map(|level| f64::from(level) / WHITE),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a whole number from 0 to 9"
            )]
            digit: label as usize,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts of the data set's own description, its first image (a zero), and the known sum of all grey levels.
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

//! Contract tests of the kernels.

use fedbo_gp::{Family, GpError, Kernel};
use fedbo_testkit::kernel_contract;

const FAMILIES: [Family; 3] = [Family::SquaredExponential, Family::Matern32, Family::Matern52];

#[test]
fn every_family_keeps_the_kernel_contract() {
    for family in FAMILIES {
        kernel_contract(&Kernel::isotropic(family, 1, 0.3, 1.0).unwrap());
        kernel_contract(&Kernel::new(family, vec![0.2, 5.0, 0.7], 1e-4).unwrap());
        kernel_contract(&Kernel::new(family, vec![1e-3, 1e3], 1e9).unwrap());
        kernel_contract(&Kernel::isotropic(family, 50, 2.0, 2.5).unwrap());
    }
}

/// Points that are infinitely far apart in units of the length scale have covariance 0, not NaN.
#[test]
fn tiny_length_scales_give_zero_covariance() {
    for family in FAMILIES {
        for lengthscale in [1e-8, 1e-160, 1e-300] {
            let kernel = Kernel::isotropic(family, 1, lengthscale, 2.0).unwrap();
            assert_eq!(kernel.value(&[0.0], &[1.0]).to_bits(), 0, "{family:?} {lengthscale}");
            assert!((kernel.value(&[0.5], &[0.5]) - 2.0).abs() < 1e-15);
        }
    }
}

#[test]
fn hyperparameters_outside_their_domain_are_refused() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-320] {
        let family = Family::Matern52;
        for made in
            [Kernel::new(family, vec![1.0, bad], 1.0), Kernel::new(family, vec![1.0, 1.0], bad)]
        {
            assert!(matches!(made, Err(GpError::Hyperparameter { .. })), "{bad}");
        }
    }
}

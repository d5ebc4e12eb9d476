//! Linear rules between numeric parameters, and mixtures whose shares have a fixed sum.

mod repair;
mod slice;

use std::collections::BTreeMap;

use fedbo_optim::Polytope;
use serde::{Deserialize, Serialize};

use crate::{Kind, Parameter, Point, SpaceError, Value};

pub use slice::Slice;

/// Maximum number of rules and mixtures of a space.
const MAX_RULES: usize = 1000;
/// Maximum number of parameters in rules: the search solves dense systems of this size.
const MAX_MEMBERS: usize = 100;
/// Maximum length of a rule's name.
const MAX_NAME: usize = 100;
/// Largest violation of a rule by a point of a user, as a fraction of the range of the rule's sum.
const TOLERANCE: f64 = 1e-6;

/// A linear rule as written in a file: a weighted sum of numeric parameters with bounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// A name for messages. By default, the sum itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The coefficient of each parameter.
    pub terms: BTreeMap<String, f64>,
    /// Upper bound of the sum, inclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// Lower bound of the sum, inclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The exact sum; excludes the bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<f64>,
}

/// A mixture as written in a file: parameters that are the shares of a total.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixtureSpec {
    /// A name for messages. By default, the sum itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The parameters.
    pub parameters: Vec<String>,
    /// The sum of the shares. 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
}

impl MixtureSpec {
    /// Returns the rule that the shares have this total.
    pub(crate) fn to_rule(&self) -> RuleSpec {
        let total = self.total.unwrap_or(1.0);
        RuleSpec {
            name: self.name.clone(),
            terms: self.parameters.iter().map(|name| (name.clone(), 1.0)).collect(),
            equals: Some(total),
            ..RuleSpec::default()
        }
    }
}

/// A checked rule: low ≤ Σ coefficient · value ≤ high.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    /// The name, or the sum and its bounds.
    name: String,
    /// Index of each parameter, and its coefficient.
    terms: Vec<(usize, f64)>,
    low: f64,
    high: f64,
    /// Σ |coefficient| · (range of the parameter).
    scale: f64,
    /// Σ |coefficient| · (largest magnitude of the parameter).
    magnitude: f64,
    /// True if no parameter of the rule is continuous, so that its sums are exact but for rounding.
    is_discrete: bool,
}

impl Rule {
    fn sum(&self, numbers: &[f64]) -> f64 {
        self.terms.iter().map(|(index, coefficient)| coefficient * numbers[*index]).sum()
    }

    /// Returns true if the sum is within its bounds, with a tolerance as a fraction of its range.
    fn holds(&self, numbers: &[f64], tolerance: f64) -> bool {
        let slack = self.slack(tolerance);
        let sum = self.sum(numbers);
        sum >= self.low - slack && sum <= self.high + slack
    }

    /// Returns the violation that counts as rounding, for a tolerance as a fraction of the range of the
    /// sum.
    fn slack(&self, tolerance: f64) -> f64 {
        let rounding = 1e-12 * self.magnitude;
        if self.is_discrete { rounding } else { tolerance * self.scale + rounding }
    }

    /// Returns true if the sum must have one value.
    #[expect(clippy::float_cmp, reason = "both are the same number if `equals` is given")]
    fn is_equation(&self) -> bool {
        self.low == self.high
    }
}

/// The rules of a space, checked. Positions refer to [`Rules::members`].
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    /// Indices of the parameters in at least one rule, ascending.
    members: Vec<usize>,
    /// Smallest number of each member.
    low: Vec<f64>,
    /// Largest number of each member.
    high: Vec<f64>,
    /// Range of each member.
    range: Vec<f64>,
    /// The members' shares of their ranges that satisfy the rules, with discrete members taken as
    /// continuous.
    relaxed: Polytope,
    /// Shares of the ranges at a point that satisfies all rules.
    anchor: Vec<f64>,
    /// Number of points of a discrete space that satisfy the rules, if they were counted.
    pub(crate) n_points: Option<u64>,
}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules && self.members == other.members
    }
}

impl Rules {
    /// Checks rules and mixtures; `None` if there are none.
    pub(crate) fn checked(
        parameters: &[Parameter],
        rules: &[RuleSpec],
        mixtures: &[MixtureSpec],
    ) -> Result<Option<Self>, SpaceError> {
        let n_rules = rules.len() + mixtures.len();
        if n_rules > MAX_RULES {
            let message = format!("{n_rules} rules and mixtures, expected at most {MAX_RULES}");
            return Err(SpaceError::Rules { message });
        }
        for mixture in mixtures {
            check_mixture(mixture)?;
        }
        let all = rules.iter().cloned().chain(mixtures.iter().map(MixtureSpec::to_rule));
        let rules: Vec<Rule> =
            all.map(|spec| checked_rule(parameters, &spec)).collect::<Result<_, _>>()?;
        Self::of(parameters, rules)
    }

    /// Finds the members of checked rules and a point that satisfies them; `None` without rules.
    fn of(parameters: &[Parameter], rules: Vec<Rule>) -> Result<Option<Self>, SpaceError> {
        if rules.is_empty() {
            return Ok(None);
        }
        let is_member = |index: &usize| {
            rules.iter().any(|rule| rule.terms.iter().any(|(member, _)| member == index))
        };
        let members: Vec<usize> = (0..parameters.len()).filter(is_member).collect();
        if members.len() > MAX_MEMBERS {
            let message = format!(
                "{} parameters are in rules or mixtures, expected at most {MAX_MEMBERS}",
                members.len()
            );
            return Err(SpaceError::Rules { message });
        }
        let bounds = members.iter().filter_map(|index| parameters[*index].kind().numbers());
        let (low, high): (Vec<f64>, Vec<f64>) =
            bounds.map(|numbers| (numbers.low, numbers.high)).unzip();
        let range = low.iter().zip(&high).map(|(low, high)| high - low).collect();
        let mut checked = Self {
            relaxed: Polytope::new(members.len(), Vec::new(), Vec::new())
                .unwrap_or_else(|error| unreachable!("the whole cube: {error}")),
            rules,
            members,
            low,
            high,
            range,
            anchor: Vec::new(),
            n_points: None,
        };
        let nothing_fixed = vec![None; checked.members.len()];
        checked.relaxed = checked.polytope(&nothing_fixed).map_err(|names| SpaceError::Rules {
            message: match names.as_slice() {
                [one] => format!("rule {one:?} holds nowhere within the ranges of its parameters"),
                _ => format!("no point satisfies these rules together: {}", names.join("; ")),
            },
        })?;
        checked.anchor = checked.first_point(parameters)?;
        Ok(Some(checked))
    }

    /// Returns the rules for the other parameters if some have given values; `None` if no rule is left.
    ///
    /// # Errors
    /// If no point with these values satisfies the rules.
    pub(crate) fn with_given(
        &self,
        parameters: &[Parameter],
        given: &[Option<Value>],
    ) -> Result<Option<Self>, SpaceError> {
        let mut rules = Vec::with_capacity(self.rules.len());
        for rule in &self.rules {
            let number = |index: &usize| given[*index].as_ref().and_then(Value::as_f64);
            let (fixed, terms): (Vec<_>, Vec<_>) =
                rule.terms.iter().partition(|(index, _)| number(index).is_some());
            let sum: f64 =
                fixed.iter().map(|(index, c)| c * number(index).unwrap_or_default()).sum();
            let (low, high) = (rule.low - sum, rule.high - sum);
            let left = Rule { terms, low, high, ..rule.clone() };
            if !left.terms.is_empty() {
                rules.push(left);
            } else if !left.holds(&[], TOLERANCE) {
                return Err(SpaceError::Broken { rule: rule.name.clone(), sum });
            }
        }
        Self::of(parameters, rules)
    }

    /// Returns the name of a rule that a point breaks, and the sum of the rule at the point.
    pub(crate) fn broken(&self, parameters: &[Parameter], point: &Point) -> Option<(String, f64)> {
        let of = |parameter: &Parameter| point.get(parameter.name()).and_then(Value::as_f64);
        let numbers: Vec<f64> = parameters.iter().map(|each| of(each).unwrap_or(0.0)).collect();
        let broken = self.rules.iter().find(|rule| !rule.holds(&numbers, TOLERANCE))?;
        Some((broken.name.clone(), broken.sum(&numbers)))
    }

    /// Returns the polytope of the members that are not fixed, as shares of their ranges, or the
    /// names of the rules that contradict each other.
    fn polytope(&self, fixed: &[Option<f64>]) -> Result<Polytope, Vec<String>> {
        let free: Vec<usize> = (0..fixed.len()).filter(|at| fixed[*at].is_none()).collect();
        let (mut at_most, mut equal) = (Vec::new(), Vec::new());
        let (mut names_at_most, mut names_equal) = (Vec::new(), Vec::new());
        for rule in &self.rules {
            let mut row = vec![0.0; free.len()];
            let mut constant = 0.0;
            for (index, coefficient) in &rule.terms {
                let Ok(at) = self.members.binary_search(index) else { continue };
                constant += coefficient * self.low[at];
                match fixed[at] {
                    Some(share) => constant += coefficient * self.range[at] * share,
                    None => {
                        let place = free.binary_search(&at).unwrap_or_default();
                        row[place] += coefficient * self.range[at];
                    }
                }
            }
            if row.iter().all(|entry| *entry == 0.0) {
                let slack = rule.slack(1e-9);
                if constant < rule.low - slack || constant > rule.high + slack {
                    return Err(vec![rule.name.clone()]);
                }
                continue;
            }
            if rule.is_equation() {
                equal.push((row, rule.high - constant));
                names_equal.push(rule.name.clone());
                continue;
            }
            if rule.high.is_finite() {
                at_most.push((row.clone(), rule.high - constant));
                names_at_most.push(rule.name.clone());
            }
            if rule.low.is_finite() {
                at_most.push((row.iter().map(|entry| -entry).collect(), constant - rule.low));
                names_at_most.push(rule.name.clone());
            }
        }
        Polytope::new(free.len(), at_most, equal).map_err(|infeasible| {
            let first = infeasible.at_most.iter().map(|row| names_at_most[*row].clone());
            let others = infeasible.equal.iter().map(|row| names_equal[*row].clone());
            let mut names: Vec<String> = first.chain(others).collect();
            names.dedup();
            names
        })
    }
}

fn check_mixture(mixture: &MixtureSpec) -> Result<(), SpaceError> {
    let refused = |message: String| Err(SpaceError::Rules { message });
    let mut seen: Vec<&String> = Vec::new();
    for name in &mixture.parameters {
        if seen.contains(&name) {
            return refused(format!("mixture: parameters contains {name:?} twice"));
        }
        seen.push(name);
    }
    if seen.len() < 2 {
        return refused(format!(
            "mixture: parameters = {:?}, expected at least two names",
            mixture.parameters
        ));
    }
    Ok(())
}

fn checked_rule(parameters: &[Parameter], spec: &RuleSpec) -> Result<Rule, SpaceError> {
    if let Some(name) = &spec.name
        && (name.chars().any(char::is_control) || name.chars().count() > MAX_NAME)
    {
        let message = format!(
            "rule {name:?}: expected a name of at most {MAX_NAME} characters, without control characters"
        );
        return Err(SpaceError::Rules { message });
    }
    let name = spec.name.clone().unwrap_or_else(|| in_words(spec));
    let refused =
        |message: String| Err(SpaceError::Rules { message: format!("rule {name:?}: {message}") });
    if spec.terms.is_empty() {
        return refused("terms is empty; give a coefficient for each parameter".to_owned());
    }
    let mut terms = Vec::with_capacity(spec.terms.len());
    let (mut scale, mut magnitude, mut is_discrete) = (0.0, 0.0, true);
    for (parameter, coefficient) in &spec.terms {
        let Some(index) = parameters.iter().position(|each| each.name() == parameter) else {
            let known: Vec<&str> = parameters.iter().map(Parameter::name).collect();
            let known = known.join(", ");
            return refused(format!("there is no parameter {parameter}; the space has {known}"));
        };
        let Some(numbers) = parameters[index].kind().numbers() else {
            return refused(format!("{parameter} is a choice, and a rule needs numbers"));
        };
        if !parameters[index].when().is_empty() {
            return refused(format!(
                "{parameter} has a condition, and a rule needs parameters that always exist"
            ));
        }
        if !coefficient.is_finite() || *coefficient == 0.0 {
            return refused(format!(
                "terms.{parameter} = {coefficient}, expected a finite number other than 0"
            ));
        }
        scale += coefficient.abs() * (numbers.high - numbers.low);
        magnitude += coefficient.abs() * numbers.low.abs().max(numbers.high.abs());
        is_discrete &= has_separate_values(parameters[index].kind());
        terms.push((index, *coefficient));
    }
    let bounds = [("at_most", spec.at_most), ("at_least", spec.at_least), ("equals", spec.equals)];
    for (key, bound) in bounds {
        if let Some(bound) = bound.filter(|bound| !bound.is_finite()) {
            return refused(format!("{key} = {bound}, expected a finite number"));
        }
    }
    let (low, high) = match (spec.at_least, spec.at_most, spec.equals) {
        (None, None, Some(sum)) => (sum, sum),
        (_, _, Some(_)) => return refused("equals excludes at_most and at_least".to_owned()),
        (None, None, None) => {
            return refused("it has no bound; give at_most, at_least or equals".to_owned());
        }
        (low, high, None) => (low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY)),
    };
    if low > high {
        return refused(format!("at_least = {low} is above at_most = {high}"));
    }
    Ok(Rule { name, terms, low, high, scale, magnitude, is_discrete })
}

/// Describes a rule: `a + 2 b ≤ 10`.
fn in_words(spec: &RuleSpec) -> String {
    let mut text = String::new();
    for (name, coefficient) in &spec.terms {
        let sign = if *coefficient < 0.0 { "-" } else { "+" };
        match text.is_empty() {
            true if *coefficient < 0.0 => text.push('-'),
            true => {}
            false => text += &format!(" {sign} "),
        }
        #[expect(clippy::float_cmp, reason = "a coefficient of exactly 1 is not written")]
        match coefficient.abs() == 1.0 {
            true => text += name,
            false => text += &format!("{} {name}", coefficient.abs()),
        }
    }
    match (spec.equals, spec.at_least, spec.at_most) {
        (Some(sum), ..) => text += &format!(" = {sum}"),
        (None, low, high) => {
            if let Some(low) = low {
                text = format!("{low} <= {text}");
            }
            if let Some(high) = high {
                text += &format!(" <= {high}");
            }
        }
    }
    text
}

/// Returns true if the kind has separate values.
fn has_separate_values(kind: &Kind) -> bool {
    kind.n_values().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ParameterSpec, Space};

    fn rule(terms: &[(&str, f64)]) -> RuleSpec {
        let terms = terms.iter().map(|(name, c)| ((*name).to_owned(), *c)).collect();
        RuleSpec { terms, ..RuleSpec::default() }
    }

    fn mixture(names: &[&str]) -> MixtureSpec {
        let parameters = names.iter().map(|name| (*name).to_owned()).collect();
        MixtureSpec { name: None, parameters, total: None }
    }

    fn space(specs: &[(&str, ParameterSpec)]) -> Space {
        Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec))).unwrap()
    }

    /// Returns coordinates from a Weyl sequence.
    fn unit(dim: usize, k: u32) -> Vec<f64> {
        let step = |j: usize| 0.5_f64.powf(1.0 / (1.0 + j as f64)) * f64::from(k);
        (0..dim).map(|j| step(j).fract()).collect()
    }

    /// Integers, steps, logarithmic scales and floats, an equation and two inequalities.
    #[test]
    fn every_decoded_point_satisfies_the_rules_and_is_stable() {
        let specs = [
            ("n", ParameterSpec::int(0, 10)),
            ("m", ParameterSpec::int(0, 10)),
            ("rate", ParameterSpec::log_float(0.01, 10.0)),
            ("load", ParameterSpec::float(0.0, 5.0).with_step(0.25)),
            ("x", ParameterSpec::float(-1.0, 2.0)),
            ("kind", ParameterSpec::categorical(["a", "b", "c"])),
        ];
        let budget = RuleSpec { equals: Some(8.0), ..rule(&[("n", 1.0), ("m", 1.0), ("x", 0.5)]) };
        let most = RuleSpec { at_most: Some(3.0), ..rule(&[("rate", 1.0), ("load", 2.0)]) };
        let least = RuleSpec { at_least: Some(-0.5), ..rule(&[("x", 1.0), ("rate", -1.0)]) };
        let space = space(&specs).with_rules(&[budget, most, least], &[]).unwrap();
        let units: Vec<Vec<f64>> = (0..2000).map(|k| unit(space.dim(), k)).collect();
        let decoded = units.iter().map(|unit| space.snap(unit));
        for unit in decoded.chain(space.spread(&units, 3)) {
            let point = space.decode(&unit);
            assert_eq!(space.normalize(&point).unwrap(), point);
            let sum = point.number("n") + point.number("m") + 0.5 * point.number("x");
            assert!((sum - 8.0).abs() < 1e-8, "{sum}");
            assert!(point.number("rate") + 2.0 * point.number("load") < 3.0 + 1e-8);
            assert!(point.number("x") - point.number("rate") > -0.5 - 1e-8);
            let again = space.snap(&unit);
            let moved = again.iter().zip(&unit).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(moved < 1e-12, "{moved}");
        }
    }

    #[test]
    fn shares_of_a_mixture_sum_to_its_total_and_are_uniform() {
        let share = ParameterSpec::float(0.0, 1.0);
        for n in [2, 3, 6, 20] {
            let names: Vec<String> = (0..n).map(|j| format!("w{j}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let specs = names.iter().map(|name| (*name, &share));
            let space = Space::from_specs(specs).unwrap().with_rules(&[], &[mixture(&names)]);
            let space = space.unwrap();
            let units: Vec<Vec<f64>> = (0..300).map(|k| unit(n, k)).collect();
            let drawn = space.spread(&units, 1);
            for unit in drawn.iter().chain(&units) {
                let point = space.decode(unit);
                let sum: f64 = point.iter().filter_map(|(_, value)| value.as_f64()).sum();
                assert!((sum - 1.0).abs() < 1e-9, "{sum}");
            }
            let mean = drawn.iter().map(|unit| unit[0]).sum::<f64>() / 300.0;
            assert!((mean * n as f64 - 1.0).abs() < 0.3, "{n}: {mean}");
        }
    }

    #[test]
    fn a_point_that_breaks_a_rule_is_refused_with_its_name() {
        let x = ParameterSpec::float(0.0, 10.0);
        let named = RuleSpec {
            name: Some("budget".into()),
            at_most: Some(10.0),
            ..rule(&[("a", 1.0), ("b", 2.0)])
        };
        let space = space(&[("a", x.clone()), ("b", x)]).with_rules(&[named], &[]).unwrap();
        let point =
            |a: f64, b: f64| Point::new(vec![("a".into(), a.into()), ("b".into(), b.into())]);
        assert!(space.normalize(&point(2.0, 4.0)).is_ok());
        let error = space.normalize(&point(2.0, 5.0)).unwrap_err();
        assert_eq!(error.to_string(), "the point breaks the rule budget (the sum is 12)");
    }

    /// 0.03 + (0.3 − 0.03) is above 0.3, and −0.3 + (0.6 + 0.3) differs from 0.6.
    #[test]
    fn a_share_at_its_bound_is_in_its_range() {
        let specs = [
            ("a", ParameterSpec::float(0.03, 0.3)),
            ("b", ParameterSpec::float(0.0, 1.0)),
            ("c", ParameterSpec::float(0.1, 0.1)),
        ];
        let space = space(&specs).with_rules(&[], &[mixture(&["a", "b", "c"])]).unwrap();
        assert!((space.decode(&[1.0, 0.0]).number("a") - 0.3).abs() < 1e-12);
        for unit in (0..200).map(|k| unit(2, k)) {
            let point = space.decode(&space.snap(&unit));
            assert_eq!(space.normalize(&point).unwrap(), point);
        }
    }

    #[test]
    fn sums_of_whole_numbers_are_exact() {
        let n = ParameterSpec::int(0, 1_000_000_000);
        let most = RuleSpec { at_most: Some(1e9), ..rule(&[("a", 1.0), ("b", 1.0)]) };
        let space = space(&[("a", n.clone()), ("b", n)]).with_rules(&[most], &[]).unwrap();
        for unit in (0..200).map(|k| unit(2, k)) {
            let point = space.decode(&unit);
            assert!(point.number("a") + point.number("b") <= 1e9);
        }
        let point = Point::new(vec![("a".into(), 1.into()), ("b".into(), 1_000_000_000.into())]);
        assert!(space.normalize(&point).is_err());
    }

    /// Each of 40 members can be 0 or 1, and at most 10 are 1.
    #[test]
    fn draws_of_many_discrete_parameters_differ() {
        let names: Vec<String> = (0..40).map(|j| format!("n{j}")).collect();
        let bit = ParameterSpec::int(0, 1);
        let space = Space::from_specs(names.iter().map(|name| (name.as_str(), &bit))).unwrap();
        let terms = names.iter().map(|name| (name.clone(), 1.0)).collect();
        let most = RuleSpec { terms, at_most: Some(10.0), ..RuleSpec::default() };
        let space = space.with_rules(&[most], &[]).unwrap();
        let drawn = space.spread(&[vec![0.5; 40], vec![0.5; 40], vec![0.5; 40]], 4);
        assert!(drawn[0] != drawn[1] && drawn[1] != drawn[2] && drawn[0] != drawn[2]);
    }

    #[test]
    fn sizes_and_names_are_limited() {
        let names: Vec<String> = (0..101).map(|j| format!("w{j}")).collect();
        let share = ParameterSpec::float(0.0, 1.0);
        let space = Space::from_specs(names.iter().map(|name| (name.as_str(), &share))).unwrap();
        let shares = MixtureSpec { name: None, parameters: names, total: None };
        let says = space.clone().with_rules(&[], &[shares]).unwrap_err().to_string();
        assert_eq!(says, "101 parameters are in rules or mixtures, expected at most 100");
        let most = RuleSpec { at_most: Some(1.0), ..rule(&[("w0", 1.0)]) };
        let says = space.clone().with_rules(&vec![most.clone(); 1001], &[]).unwrap_err();
        assert!(says.to_string().contains("at most 1000"), "{says}");
        for name in ["x\nwarning: forged".to_owned(), "x".repeat(101)] {
            let named = RuleSpec { name: Some(name), ..most.clone() };
            let says = space.clone().with_rules(&[named], &[]).unwrap_err().to_string();
            assert!(says.contains("without control characters") && !says.contains('\n'), "{says}");
        }
    }

    #[test]
    fn a_discrete_space_is_enumerated_without_points_that_break_a_rule() {
        let n = ParameterSpec::int(0, 3);
        let most = RuleSpec { at_most: Some(3.0), ..rule(&[("a", 1.0), ("b", 1.0)]) };
        let space = space(&[("a", n.clone()), ("b", n)]).with_rules(&[most], &[]).unwrap();
        assert_eq!(space.points(100).unwrap().len(), 10);
        assert_eq!(space.n_points(), Some(10));
    }

    #[test]
    fn rules_that_are_not_valid_say_why() {
        let x = || ParameterSpec::float(0.0, 1.0);
        let specs = [
            ("a", x()),
            ("b", x()),
            ("k", ParameterSpec::categorical(["u", "v"])),
            ("n", ParameterSpec::int(0, 4)),
            ("c", x().when("k", "u")),
        ];
        let refused = |rules: &[RuleSpec], mixtures: &[MixtureSpec]| {
            space(&specs).with_rules(rules, mixtures).unwrap_err().to_string()
        };
        let most = |terms: &[(&str, f64)]| RuleSpec { at_most: Some(1.0), ..rule(terms) };
        assert_eq!(
            refused(&[most(&[("a", 1.0), ("z", 2.0)])], &[]),
            r#"rule "a + 2 z <= 1": there is no parameter z; the space has a, b, k, n, c"#
        );
        assert!(
            refused(&[most(&[("k", 1.0)])], &[])
                .ends_with("k is a choice, and a rule needs numbers")
        );
        assert!(refused(&[most(&[("c", 1.0)])], &[]).contains("c has a condition"));
        assert!(refused(&[rule(&[("a", -1.0)])], &[]).starts_with(r#"rule "-a": it has no bound"#));
        assert!(refused(&[most(&[("a", f64::NAN)])], &[]).contains("expected a finite number"));
        let both = RuleSpec { equals: Some(1.0), ..most(&[("a", 1.0)]) };
        assert!(refused(&[both], &[]).contains("equals excludes"));
        let far = RuleSpec { at_least: Some(3.0), ..rule(&[("a", 1.0), ("b", 1.0)]) };
        assert_eq!(
            refused(&[far], &[]),
            r#"rule "3 <= a + b" holds nowhere within the ranges of its parameters"#
        );
        let least = RuleSpec { at_least: Some(1.5), ..rule(&[("a", 1.0), ("b", 1.0)]) };
        let text = refused(&[least], &[mixture(&["a", "b"])]);
        assert!(text.contains("these rules together") && text.contains("a + b = 1"), "{text}");
        let half = RuleSpec { equals: Some(1.5), ..rule(&[("n", 1.0)]) };
        assert!(refused(&[half], &[]).starts_with("no values of the integers"));
        assert!(refused(&[], &[mixture(&["a"])]).contains("at least two names"));
        assert!(refused(&[], &[mixture(&["a", "a"])]).contains("twice"));
    }
}

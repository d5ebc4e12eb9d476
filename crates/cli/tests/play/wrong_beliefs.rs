//! Mistakes in the levels, beliefs, strategies and models of a `game.toml`.

use crate::play::mistakes::{LEVEL, RIVAL, refused, refused_text};
use crate::play::two_programs::{duel, sandbox};

#[test]
fn of_minds() {
    let shop = |more: &str| format!("level = 1\n{more}\n");
    refused(LEVEL, "level = -1\n", &["line 14: players.shop.level = -1"]);
    refused(
        LEVEL,
        "level = 17\n",
        &["line 14: players.shop.level = 17, expected a whole number from 0 to 16"],
    );
    refused(
        LEVEL,
        "level = 1000000\n",
        &["players.shop.level = 1000000, expected a whole number from 0 to 16"],
    );
    refused(
        LEVEL,
        &shop("believes.shop.level = 0"),
        &["line 15", "players.shop.believes.shop: shop has no beliefs about itself; remove it"],
    );
    refused(
        LEVEL,
        &shop("believes.rivla.level = 0"),
        &["line 15", "there is no player \"rivla\"; did you mean rival?"],
    );
    refused(
        LEVEL,
        &shop("believes.somebody.level = 0"),
        &["there is no player \"somebody\"; known are shop, rival"],
    );
    refused(
        LEVEL,
        &shop("believes.rival.level = 1"),
        &[
            "players.shop: it believes that the others reason at level 1 at most, and level 2 responds to that, not 1; set level = 2",
        ],
    );
    refused(
        LEVEL,
        "level = 3\nbelieves.rival.level = 0\n",
        &[
            "at level 0 at most, and level 1 responds to that, not 3; set level = 1, or believe level = 2 of one of them",
        ],
    );
    refused(
        LEVEL,
        "level = 0\nbelieves.rival.level = 0\n",
        &[
            "players.shop: a player at level 0 ignores the others; remove believes, or choose level = 1",
        ],
    );
    refused(
        LEVEL,
        "level = 0\nexpectation = \"lite\"\n",
        &["a player at level 0 ignores the others; remove expectation"],
    );
    refused(
        LEVEL,
        &shop("expectation = \"light\""),
        &["players.shop.expectation = \"light\", expected \"exact\", \"lite\""],
    );
    refused(LEVEL, &shop("expectation = 0"), &["players.shop.expectation = 0"]);
    refused(LEVEL, &shop("expectation = 1.5"), &["players.shop.expectation = 1.5"]);
    refused(
        LEVEL,
        &shop("level0 = \"gpmw\""),
        &["players.shop.level0 = \"gpmw\"", "did you mean \"gp-mw\"?"],
    );
    refused(LEVEL, &shop("level0 = 3"), &["players.shop.level0 = 3"]);
    refused(
        LEVEL,
        &shop("level0 = [0.5, 0.5]"),
        &[
            "players.shop.level0 = [0.5, 0.5], expected 11 weights of at least 0, one for each action of shop",
        ],
    );
    refused(
        LEVEL,
        &shop("level0 = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1]"),
        &["11 weights of at least 0"],
    );
    refused(LEVEL, &shop("level0 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]"), &["not all 0"]);
    refused(LEVEL, &shop("ucb_multiplier = -1.0"), &["players.shop.ucb_multiplier = -1.0"]);
    refused(
        LEVEL,
        &shop("believes.rival.ucb_multiplier = nan"),
        &["players.shop.believes.rival.ucb_multiplier = nan"],
    );
    refused(
        LEVEL,
        &shop("believes.rival.expectation = \"exact\""),
        &["players.shop.believes.rival: a player at level 0 ignores the others"],
    );
    refused(
        LEVEL,
        &shop("surrogate.kernel = \"linear\""),
        &["players.shop.surrogate.kernel = \"linear\""],
    );
    refused(
        LEVEL,
        &shop("surrogate.lengthscale = [0.3]"),
        &["players.shop.surrogate.lengthscale = [0.3]"],
    );
    refused(
        LEVEL,
        &shop("believes.rival.level0 = [1.0]"),
        &["players.shop.believes.rival.level0 = [1.0], expected 21 weights"],
    );
    // These keys require finitely many actions of the player or its opponents.
    let without_grid =
        duel(&[(LEVEL, "level = 1\nexpectation = \"exact\"\n"), ("grid = 21\n", "")]);
    refused_text(
        &without_grid,
        &[
            "players.shop.expectation = \"exact\" needs finitely many actions of the others, but those of rival are continuous; set players.rival.grid, or expectation = 500 draws",
        ],
    );
    let without_grid = duel(&[("level = 1\ngrid = 11\n", "level = 1\nlevel0 = \"gp-mw\"\n")]);
    refused_text(
        &without_grid,
        &[
            "players.shop.level0 = \"gp-mw\" needs finitely many actions, but those of shop are continuous; set players.shop.grid",
        ],
    );
    let without_range =
        duel(&[(LEVEL, "level = 1\nlevel0 = \"exp3\"\n"), ("range = [-2.0, 2.0]\n", "")]);
    refused_text(
        &without_range,
        &[
            "players.shop.level0 = \"exp3\" needs the range of the payoffs; add range = [LEAST, LARGEST] to [payoffs], or payoff_range to [players.shop]",
        ],
    );
}

/// These levels and grids are too large only for more than two players.
#[test]
fn of_minds_of_many() {
    let third = |level: &str, grid: &str| {
        let text =
            duel(&[(RIVAL, level), (LEVEL, level), ("grid = 11", grid), ("grid = 21", grid)]);
        text + &format!(
            "[players.third]\n{level}{grid}\n[players.third.space.x]\ntype = \"float\"\nlow = 0\nhigh = 1\n"
        )
    };
    refused_text(
        &third("level = 10\n", "grid = 2"),
        &["more than 1024 beliefs within beliefs; among 3 players level", "too high"],
    );
    refused_text(
        &third("level = 1\nexpectation = \"exact\"\n", "grid = 600"),
        &[
            "line 15: players.shop.expectation = \"exact\" is for up to 262144 joint actions of the others, but there are 360000",
            "expectation = 500 draws",
        ],
    );
}

/// A player at level 2 believes that one opponent is at level 0 and that the other one, with many
/// actions, reasons. Actions of a reasoning opponent are not enumerated, because the opponent
/// chooses only one of them.
#[test]
fn exact_expectations_count_only_those_at_level_0() {
    let text = duel(&[
        (LEVEL, "level = 2\nexpectation = \"exact\"\nbelieves.third.level = 0\n"),
        (RIVAL, "level = 0\n"),
        ("grid = 21", "grid = 2000"),
        (", \"{shop.price}\", \"{rival.price}\"", ""),
        ("rounds = 6", "rounds = 3"),
    ]) + "[players.third]\nlevel = 0\ngrid = 200\n[players.third.space.x]\ntype = \"float\"\nlow = 0\nhigh = 1\n";
    let sandbox = sandbox(&[]);
    sandbox.write("duel.toml", &text);
    sandbox.write("payoffs.sh", "echo 1 2 1.5");
    let ran = sandbox.fedbo(&["play", "duel.toml"]);
    // The rival is believed to consider two other players at level 0. These two have few combined
    // actions as well: 11 x 200.
    ran.expect(0, &[]);
}

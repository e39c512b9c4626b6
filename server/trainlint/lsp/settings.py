"""What the client says: how it started the server, and the settings of its section `trainlint`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from trainlint.lint.check_options import CheckOptions

SECTION = "trainlint"


class SettingsError(Exception):
    """A setting that is wrong; the message names it and says what it may be."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")


class Settings(_Model):
    """The settings of one folder. Names that the client uses itself, as for choosing an interpreter, are left alone."""

    enable: bool = True
    """Whether anything is reported."""
    configuration: str | None = None
    """The one configuration file to use, in place of those found beside the code; relative to the folder."""
    select: list[str] | None = None
    """Rules to use in place of those that the configuration selects."""
    extend_select: list[str] | None = None
    """Rules to use besides those."""
    ignore: list[str] | None = None
    """Rules not to use."""
    min_confidence: Literal["high", "medium", "low"] | None = None
    """Leave out findings that are less certain."""
    min_severity: Literal["error", "warning", "info", "hint"] | None = None
    """Leave out findings that are less severe."""

    hide_refuted: bool = False
    """Whether findings that a measured run refuted are left out, rather than shown as hints."""
    path_map: dict[str, str] = {}
    """Folders of the machines where jobs ran, each with the folder here that stands for it."""

    @classmethod
    def of(cls, given: Any) -> Settings:
        """Read settings as a client sends them; empty for none.

        Raises:
            SettingsError: one of them is wrong.
        """
        if not isinstance(given, dict):
            return cls()
        # An editor shows a setting that is not set as null, or as an empty text.
        meant = {key: value for key, value in given.items() if value not in (None, "")}
        try:
            return cls.model_validate(meant)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join([SECTION, *map(str, first["loc"])])
            raise SettingsError(f"the setting `{name}` is wrong: {first['msg']}, not {first['input']!r}") from None

    def options(self, folder: Path | None, *, trusted: bool) -> CheckOptions:
        """How to check the files of a folder. In one that is not trusted, nothing outside the code is read or written
        for it, since its files may ask for anything."""
        overrides: dict[str, object] = {}
        for key in ("select", "extend_select", "ignore", "min_confidence"):
            value = getattr(self, key)
            if value is not None:
                overrides[key.replace("_", "-")] = value
        configuration = None
        if self.configuration is not None and trusted:
            configuration = (folder or Path.cwd()) / self.configuration
        return CheckOptions(
            overrides=overrides,
            config_file=configuration,
            force_exclude=True,
            min_severity=self.min_severity,
            cache=trusted,
        )


class Start(_Model):
    """The initialization options."""

    trusted: bool = True
    """Whether the folders may be trusted with what they configure."""
    shows_pages: bool = False
    """Whether the client itself shows the page that `trainlint.explain` returns."""
    settings: dict[str, Any] | None = None
    """The settings of all folders, where the client says nothing else of them later."""

    @classmethod
    def of(cls, given: Any) -> Start:
        """Read them as a client sends them; what is wrong counts as not given."""
        try:
            return cls.model_validate(given or {})
        except ValidationError:
            return cls()

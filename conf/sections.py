"""What each section of the settings is."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Never changes, and takes no key that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)

"""The schema of SARIF 2.1.0, and the part of it that concerns what ptosim writes.

`published()` is the schema of the OASIS standard (revision rtm.5), as the npm package
@microsoft/jest-sarif distributes it under the MIT licence; the file beside this one is its copy.
`SCHEMA` is narrower, from the property tables of the standard (sections 3.13 to 3.57): closed
objects, text that has to be there, characters that a URI may have."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema


@cache
def published() -> jsonschema.Draft4Validator:
    """A validator of the published schema."""
    path = Path(__file__).with_name("sarif-2.1.0-rtm.5.json")
    schema = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft4Validator.check_schema(schema)
    return jsonschema.Draft4Validator(schema)


def obj(required: str, **properties: Any) -> dict[str, Any]:
    """A closed object; every object of SARIF may carry a property bag."""
    return {
        "type": "object",
        "required": required.split(),
        "properties": {**properties, "properties": {"type": "object"}},
        "additionalProperties": False,
    }


def several(item: dict[str, Any], least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": item, "minItems": least}


TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 1}
MESSAGE = obj("text", text=TEXT, markdown=TEXT, id=TEXT)  # 3.11
URI = {"type": "string", "format": "uri-reference", "pattern": r"^[^\s\\<>\"{}|^`]+$"}
ARTIFACT = obj("uri", uri=URI, uriBaseId=TEXT, index={"type": "integer", "minimum": -1})  # 3.4
REGION = obj(  # 3.30: columns from 1
    "startLine", startLine=COUNT, startColumn=COUNT, endLine=COUNT, endColumn=COUNT
)
PHYSICAL = obj("artifactLocation", artifactLocation=ARTIFACT, region=REGION)  # 3.29
LOCATION = obj(  # 3.28
    "physicalLocation",
    id={"type": "integer", "minimum": -1},
    physicalLocation=PHYSICAL,
    message=MESSAGE,
)
REPLACEMENT = obj(  # 3.57
    "deletedRegion", deletedRegion=REGION, insertedContent=obj("text", text=TEXT)
)
CHANGE = obj(  # 3.56
    "artifactLocation replacements",
    artifactLocation=ARTIFACT,
    replacements=several(REPLACEMENT, 1),
)
FIX = obj("artifactChanges", description=MESSAGE, artifactChanges=several(CHANGE, 1))  # 3.55
RESULT = obj(  # 3.27
    "ruleId message",
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": -1},
    level={"enum": ["none", "note", "warning", "error"]},
    message=MESSAGE,
    locations=several(LOCATION),
    relatedLocations={**several(LOCATION), "uniqueItems": True},
    partialFingerprints={
        "type": "object",
        "propertyNames": {"pattern": r"^[^/]+(/v[0-9]+)?$"},
        "additionalProperties": TEXT,
    },
    fixes={**several(FIX), "uniqueItems": True},
)
RULE = obj(  # 3.49
    "id",
    id=TEXT,
    shortDescription=MESSAGE,
    fullDescription=MESSAGE,
    help=MESSAGE,
    helpUri={"type": "string", "format": "uri"},
    defaultConfiguration=obj("", level={"enum": ["none", "note", "warning", "error"]}),  # 3.50
)
DRIVER = obj("name", name=TEXT, version=TEXT, semanticVersion=TEXT, rules=several(RULE))  # 3.19
RUN = obj(  # 3.14
    "tool",
    tool=obj("driver", driver=DRIVER),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results=several(RESULT),
)
SCHEMA: dict[str, Any] = {  # 3.13
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"enum": ["2.1.0"]},
        "runs": several(RUN),
    },
    "additionalProperties": False,
}

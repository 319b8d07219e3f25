"""The other state of a W&B server: projects, saved views (reports) and artifacts.

Answers to the operations of wandb-workspaces 0.4 and of the real client's artifacts (wandb 0.31).
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Variables = Mapping[str, Any]


@dataclass
class StoredView:
    """A report (type `runs`) or a view of a project (`project-view`).

    Attributes:
        spec: as sent, parsed.
        saved: how often it was written.
    """

    id: str
    entity: str
    project: str
    type: str
    name: str
    display_name: str
    description: str
    spec: dict[str, Any]
    created_at: str
    saved: int = 1

    def describe(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": self.type,
            "name": self.name,
            "displayName": self.display_name,
            "description": self.description,
            "spec": json.dumps(self.spec),
            "createdAt": self.created_at,
            "updatedAt": self.created_at,
            "user": {"username": "tester", "photoUrl": "", "email": ""},
            "project": {"id": "1", "name": self.project, "entityName": self.entity},
        }


@dataclass
class StoredArtifact:
    """One version of an artifact.

    Attributes:
        files: content by the path inside it, its manifest under `wandb_manifest.json`.
    """

    id: str
    name: str
    type: str
    digest: str
    run: str
    version: int
    state: str = "PENDING"
    files: dict[str, bytes] = field(default_factory=dict)


class Views:
    """Everything stored, and the answers; the caller holds the lock.

    Attributes:
        organizations: of the user.
        links: entity, registry, collection and artifact of each link that was asked for.
    """

    def __init__(self, runs: Callable[[], list[Any]], url: Callable[[], str]) -> None:
        self.views: dict[str, StoredView] = {}
        self.artifacts: dict[str, StoredArtifact] = {}
        self.organizations = ["acme"]
        self.links: list[tuple[str, ...]] = []
        self._runs = runs
        self._url = url
        self._numbers = itertools.count(1)
        self.operations: dict[str, Callable[[Variables], dict[str, Any]]] = {
            "GetProjects": self._get_projects,
            "ProjectInternalId": self._project_id,
            "upsertView": self._upsert,
            "UpsertView2": self._upsert,
            "View": self._workspace,
            "ProjectViews": self._reports,
            "SpecificReport": self._report,
            "CreateArtifact": self._create_artifact,
            "CreateArtifactManifest": self._create_manifest,
            "CreateArtifactFiles": self._create_files,
            "CommitArtifact": self._commit,
            "ArtifactByID": self._artifact,
            "ArtifactMembershipByName": self._membership,
            "ArtifactType": lambda _: {"project": {"artifact": None}},
            "FetchOrgInfoFromEntity": self._organizations,
            "LinkArtifact": self._link,
        }

    def of_type(self, name: str) -> list[StoredView]:
        """The views of one type."""
        return [view for view in self.views.values() if view.type == name]

    def upload(self, artifact: str, path: str, content: bytes) -> None:
        """Store a file of an artifact."""
        self.artifacts[artifact].files[path] = content

    def _known(self) -> set[tuple[str, str]]:
        return {(run.entity, run.project) for run in self._runs()}

    def _get_projects(self, variables: Variables) -> dict[str, Any]:
        nodes = [
            {
                "__typename": "Project",
                "id": "1",
                "name": name,
                "entityName": entity,
                "createdAt": "2026-01-01T00:00:00Z",
                "isBenchmark": False,
                "user": None,
            }
            for entity, name in sorted(self._known())
            if entity == variables["entity"]
        ]
        page = {"__typename": "PageInfo", "endCursor": None, "hasNextPage": False}
        return {"models": {"pageInfo": page, "edges": [{"node": node} for node in nodes]}}

    def _project_id(self, variables: Variables) -> dict[str, Any]:
        exists = (variables["entityName"], variables["projectName"]) in self._known()
        return {"project": {"id": "1", "internalId": "42"} if exists else None}

    def _upsert(self, variables: Variables) -> dict[str, Any]:
        view = self.views.get(variables.get("id") or "")
        if view is None:
            number = next(self._numbers)
            view = StoredView(
                id=base64.b64encode(f"View:{number:06d}".encode()).decode(),
                entity=variables["entityName"],
                project=variables["projectName"],
                type=variables["type"],
                name="",
                display_name="",
                description="",
                spec={},
                created_at=f"2026-01-01T00:00:{number:02d}Z",
                saved=0,
            )
            self.views[view.id] = view
        view.name, view.display_name = variables["name"], variables["displayName"]
        view.description, view.spec = variables["description"], json.loads(variables["spec"])
        view.saved += 1
        return {"upsertView": {"view": view.describe(), "inserted": view.saved == 1}}

    def _workspace(self, variables: Variables) -> dict[str, Any]:
        place = (variables["entityName"], variables["projectName"])
        if place not in self._known():
            return {"project": None}
        wanted = (variables["viewType"], variables["viewName"], *place)
        edges = [
            {"node": view.describe()}
            for view in self.views.values()
            if (view.type, view.name, view.entity, view.project) == wanted
        ]
        return {"project": {"allViews": {"edges": edges}}}

    def _reports(self, variables: Variables) -> dict[str, Any]:
        place = (variables["entity"], variables["project"])
        if place not in self._known():
            return {"project": None}
        nodes = [
            view.describe()
            for view in self.of_type("runs")
            if (view.entity, view.project) == place
            and variables.get("viewName") in (None, view.name)
        ]
        edges = [{"node": node, "cursor": node["id"]} for node in nodes]
        page = {"endCursor": None, "hasNextPage": False}
        return {"project": {"allViews": {"edges": edges, "pageInfo": page}}}

    def _report(self, variables: Variables) -> dict[str, Any]:
        view = self.views.get(variables["reportId"])
        return {"view": view.describe() if view else None}

    def _create_artifact(self, variables: Variables) -> dict[str, Any]:
        given = variables["input"]
        name, digest = given["artifactCollectionName"], given["digest"]
        versions = [artifact for artifact in self.artifacts.values() if artifact.name == name]
        artifact = next((version for version in versions if version.digest == digest), None)
        if artifact is None:
            artifact = StoredArtifact(
                id=f"artifact{next(self._numbers)}",
                name=name,
                type=given["artifactTypeName"],
                digest=digest,
                run=given.get("runName") or "",
                version=len(versions),
            )
            self.artifacts[artifact.id] = artifact
        latest = {"id": versions[-1].id} if versions else None
        described = {
            "id": artifact.id,
            "state": artifact.state,
            "artifactSequence": {"id": name, "latestArtifact": latest},
        }
        return {"createArtifact": {"artifact": described}}

    def _create_manifest(self, variables: Variables) -> dict[str, Any]:
        artifact = variables["artifactID"]
        url = f"{self._url()}/artifact/{artifact}/wandb_manifest.json"
        file = {"id": "1", "uploadUrl": url, "uploadHeaders": []}
        return {"createArtifactManifest": {"artifactManifest": {"id": artifact, "file": file}}}

    def _create_files(self, variables: Variables) -> dict[str, Any]:
        nodes: list[dict[str, Any]] = [
            {
                "storagePath": f"{file['artifactID']}/{file['name']}",
                "uploadHeaders": [],
                "uploadMultipartUrls": None,
                "uploadUrl": f"{self._url()}/artifact/{file['artifactID']}/{file['name']}",
                "artifact": {"id": file["artifactID"]},
            }
            for file in variables["input"]["artifactFiles"]
        ]
        return {"createArtifactFiles": {"files": {"edges": [{"node": node} for node in nodes]}}}

    def _artifact(self, variables: Variables) -> dict[str, Any]:
        return {"artifact": _described(self.artifacts[variables["id"]])}

    def _membership(self, variables: Variables) -> dict[str, Any]:
        name = variables["name"].partition(":")[0]
        committed = [
            artifact
            for artifact in self.artifacts.values()
            if (artifact.name, artifact.state) == (name, "COMMITTED")
        ]
        if not committed:
            return {"project": {"artifactCollectionMembership": None}}
        described = _described(committed[-1])
        collection = {**described["artifactSequence"], "description": None, "tags": {"edges": []}}
        member = {
            "__typename": "ArtifactCollectionMembership",
            "id": "1",
            "artifact": described,
            "artifactCollection": collection,
            "versionIndex": committed[-1].version,
            "aliases": [],
            "createdAt": "2026-01-01T00:00:00Z",
        }
        return {"project": {"artifactCollectionMembership": member}}

    def _organizations(self, variables: Variables) -> dict[str, Any]:
        named = [
            {"name": name, "orgEntity": {"name": f"{name}-org"}} for name in self.organizations
        ]
        return {"entity": {"organization": None, "user": {"organizations": named}}}

    def _link(self, variables: Variables) -> dict[str, Any]:
        given = variables["input"]
        names = ("entityName", "projectName", "artifactPortfolioName", "artifactID")
        self.links.append(tuple(given[name] for name in names))
        return {"result": {"versionIndex": 0}}

    def _commit(self, variables: Variables) -> dict[str, Any]:
        artifact = self.artifacts[variables["artifactID"]]
        artifact.state = "COMMITTED"
        return {"commitArtifact": {"artifact": {"id": artifact.id, "digest": artifact.digest}}}


def _described(artifact: StoredArtifact) -> dict[str, Any]:
    project = {"id": "1", "internalId": "42", "name": "p", "entity": {"name": "tester"}}
    return {
        "__typename": "Artifact",
        "id": artifact.id,
        "versionIndex": artifact.version,
        "artifactType": {"name": artifact.type},
        "artifactSequence": {
            "__typename": "ArtifactSequence",
            "name": artifact.name,
            "project": project,
        },
        "description": None,
        "metadata": "{}",
        "ttlDurationSeconds": -1,
        "ttlIsInherited": True,
        "tags": [],
        "historyStep": None,
        "state": artifact.state,
        "size": 1,
        "digest": artifact.digest,
        "commitHash": "0",
        "fileCount": 1,
        "createdAt": "2026-01-01T00:00:00Z",
        "updatedAt": None,
        "aliases": [],
    }

"""AIMNamespaceConfig: gateway, credentials and pull secrets of a namespace, as older documents have them (RC-120)."""

from __future__ import annotations

from controller_runtime import ApiModel, Items, Resource

API_VERSION = "config.kaiwo.silogen.ai/v1alpha1"


class SecretValueReference(ApiModel):
    """A key of a Secret in the same namespace."""

    secret_name: str | None = None
    """Name of the Secret."""
    secret_key: str | None = None
    """Key in the Secret."""


class GatewayRef(ApiModel):
    """The Gateway of a namespace's routes."""

    name: str | None = None
    """Name of the Gateway."""
    namespace: str | None = None
    """Namespace of the Gateway."""


class S3Credential(ApiModel):
    """Credentials for one S3 endpoint."""

    endpoint_url: str | None = None
    """URL of the endpoint."""
    access_key_id: SecretValueReference | None = None
    """Where the access key id is."""
    secret_access_key: SecretValueReference | None = None
    """Where the secret access key is."""


class GcsCredential(ApiModel):
    """Credentials for Google Cloud Storage, which no source of weights uses."""

    application_credentials: SecretValueReference | None = None
    """Where the JSON of the service account is."""


class AzureBlobCredential(ApiModel):
    """Credentials for Azure Blob Storage, which no source of weights uses."""

    connection_string: SecretValueReference | None = None
    """Where the connection string is."""


class NamespaceCredentials(ApiModel):
    """Credentials for the sources of weights."""

    hugging_face_token: SecretValueReference | None = None
    """Where the token for Hugging Face is."""
    s3: Items[S3Credential] = ()
    """Credentials for S3, one entry per endpoint."""
    gcs: Items[GcsCredential] = ()
    """Accepted and without effect: no source of weights is on Google Cloud Storage."""
    azure_blob: Items[AzureBlobCredential] = ()
    """Accepted and without effect: no source of weights is on Azure Blob Storage."""


class NamespaceImages(ApiModel):
    """How images are pulled."""

    image_pull_secrets: Items[str] = ()
    """Names of the Secrets with credentials for pulling images."""


class NamespaceConfigSpec(ApiModel):
    """Settings of a namespace, below its AIMRuntimeConfig."""

    gateway: GatewayRef | None = None
    """The Gateway of the namespace's routes."""
    credentials: NamespaceCredentials | None = None
    """Credentials for the sources of weights."""
    images: NamespaceImages | None = None
    """How images are pulled."""


class AIMNamespaceConfig(Resource):
    """Gateway, credentials and pull secrets of a namespace; its AIMRuntimeConfig takes precedence."""

    api_version: str = API_VERSION
    kind: str = "AIMNamespaceConfig"
    spec: NamespaceConfigSpec = NamespaceConfigSpec()
    """The settings."""

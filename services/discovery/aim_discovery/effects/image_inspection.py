"""Effect ``image-inspection``: the labels of an image, read from its registry (DI-071…DI-094)."""

from aim_discovery.effects.secrets import PullSecretReader
from aim_discovery.models.inspection import REGISTRY_REASONS
from aim_domain import registry_readings
from controller_runtime import Category, ClassifiedError, Effect, EffectError, JsonObject, Readings
from oci_registry import RegistryClient, RegistryError, parse_image


class ImageInspector:
    """Inspects images; the client bounds time and concurrency (DI-088, FW-396)."""

    def __init__(self, registry: RegistryClient, secrets: PullSecretReader) -> None:
        self._registry = registry
        self._secrets = secrets

    def readings(self) -> Readings:
        """Metrics of the access to registries (FW-387, FW-398)."""
        return registry_readings(self._registry)

    async def __call__(self, effect: Effect) -> JsonObject:
        """Digest and labels of the image.

        Raises:
            EffectError: a Secret or the registry refuses; the reason is that of DI-093.
        """
        image = str(effect.params["image"])
        credentials = await self._secrets.credentials(
            str(effect.params["namespace"]), effect.params["secrets"], str(effect.params["serviceAccount"])
        )
        try:
            config = await self._registry.image_config(parse_image(image), credentials)
        except RegistryError as error:
            message = f"image {image} cannot be inspected: {error}"
            # All three registry categories behave as infrastructure errors of the model (DI-094).
            raise EffectError(
                ClassifiedError(Category.INFRASTRUCTURE, REGISTRY_REASONS[error.category], message)
            ) from error
        return {"digest": config.digest, "labels": dict(config.labels)}

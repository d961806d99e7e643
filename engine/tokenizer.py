"""The tokenizer of a model folder, for the callers that turn text into the engine's token ids."""

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from engine.errors import UnsupportedModel
from engine.models import ModelFolder
from engine.quiet import quiet_transformers


def load_tokenizer(folder: ModelFolder) -> PreTrainedTokenizerBase:
    """The tokenizer with its chat template. Raises UnsupportedModel when it has none to load."""
    try:
        with quiet_transformers():
            tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
                folder.path, local_files_only=True
            )
    except (OSError, ValueError, KeyError) as error:
        raise UnsupportedModel(model=folder.name, reason=f"its tokenizer: {error}") from error
    return tokenizer

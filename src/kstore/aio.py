"""No module for asyncio exists: importing this one raises ImportError, naming what to import."""

from kstore.hints.kafka_names import OF_MODULE

raise ImportError(f"kstore has no module 'aio': {OF_MODULE['aio']}", name="kstore.aio")

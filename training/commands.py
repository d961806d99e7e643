"""What people say to a home: sentences expanded from Home Assistant's templates (Apache-2.0), asked for their intent.

Knows the template language (alternatives in round brackets, options in square ones, <rule>, {list:slot}); rules and
lists come from the same file.
"""

import json
import random
import re
from pathlib import Path

from training.prompts import Case, Question
from training.shapes import choice, noul

INTENTS = {
    "HassBroadcast": ("broadcast", "say something aloud in all rooms"),
    "HassCancelTimer": ("cancel timer", "end a timer"),
    "HassClimateGetTemperature": ("get temperature", "how warm it is"),
    "HassClimateSetTemperature": ("set temperature", "make it warmer or cooler"),
    "HassFanSetSpeed": ("fan speed", "how fast a fan turns"),
    "HassGetCurrentDate": ("date", "which day it is"),
    "HassGetCurrentTime": ("time", "what time it is"),
    "HassGetWeather": ("weather", "the forecast"),
    "HassLawnMowerDock": ("dock mower", "send the lawn mower home"),
    "HassLawnMowerStartMowing": ("mow", "cut the grass"),
    "HassLightSet": ("light setting", "brightness or colour of a lamp"),
    "HassMediaNext": ("next track", "skip what is playing"),
    "HassMediaPause": ("pause music", "stop playing for a while"),
    "HassMediaPrevious": ("previous track", "go back one piece"),
    "HassMediaUnpause": ("resume music", "go on playing"),
    "HassNevermind": ("never mind", "forget the request"),
    "HassSetPosition": ("position", "open or close something partly"),
    "HassSetVolume": ("volume", "how loud it is"),
    "HassShoppingListAddItem": ("shopping list", "put a thing on the list to buy"),
    "HassStartTimer": ("start timer", "count down from now"),
    "HassTimerStatus": ("timer status", "how long is left on a timer"),
    "HassTurnOff": ("turn off", "switch something off or close it"),
    "HassTurnOn": ("turn on", "switch something on or open it"),
    "HassVacuumStart": ("vacuum", "clean the floor"),
    "HassVacuumReturnToBase": ("dock vacuum", "send the robot back to its base"),
}
FILLERS = {
    "area": ("kitchen", "bedroom", "hall", "office", "garage", "bathroom"), "name": ("ceiling lamp", "heater", "left blind", "fountain", "desk fan"),
    "floor": ("upstairs", "the first floor", "the basement"), "shopping_list_item": ("oranges", "rice", "soap", "candles"),
    "message": ("dinner is ready", "we leave in five minutes"), "timer_name": ("egg", "tea", "laundry"), "todo_list_item": ("water the plants",),
    "search_query": ("some jazz", "the new album"), "timer_command": ("turn off the lamp",), "zone": ("school", "work"),
}  # fmt: skip
ASKS = (
    "What does the speaker want?",
    "Which command is it?",
    "Choose the intent.",
    "What should the house do?",
    "",
)


class Commands:
    """Draws cases; the same generator state gives the same case."""

    def __init__(self, file: Path) -> None:
        data = json.loads(file.read_text())
        self.rules, self.lists = data["expansion_rules"], data["lists"]
        self.sentences = {
            name: [s for block in data["intents"][name]["data"] for s in block["sentences"]]
            for name in INTENTS
            if name in data["intents"]
        }

    def case(self, rng: random.Random) -> Case:
        intent = rng.choice(list(self.sentences))
        text = re.sub(r"\s+", " ", self._expand(rng.choice(self.sentences[intent]), rng)).strip()
        asks = tuple(self._ask(intent, rng) for _ in range(rng.randint(1, 3)))
        return Case(state=text, questions=asks, source="commands")

    def _ask(self, intent: str, rng: random.Random) -> Question:
        others = rng.sample([i for i in self.sentences if i != intent], rng.randint(1, 5))
        if rng.random() < 0.6:
            described = rng.random() < 0.5
            options = [
                (INTENTS[i][0], INTENTS[i][1] if described else None) for i in (intent, *others)
            ]
            return choice(rng, rng.choice(ASKS), options, 0)
        true = rng.random() < 0.5
        name, about = INTENTS[intent if true else others[0]]
        return noul(
            rng, f"Does the speaker want this: {rng.choice((name, about))}?", (None, None), true
        )

    def _expand(self, text: str, rng: random.Random, depth: int = 0) -> str:
        if depth > 12:
            return ""
        text = re.sub(
            r"<(\w+)>",
            lambda m: self._expand(f"({self.rules.get(m[1], m[1])})", rng, depth + 1),
            text,
        )
        while (m := re.search(r"\(([^()\[\]]*)\)|\[([^()\[\]]*)\]", text)) is not None:
            body = m[1] if m[1] is not None else (m[2] if rng.random() < 0.5 else "")
            text = text[: m.start()] + rng.choice(body.split("|")) + text[m.end() :]
        return re.sub(r"\{(\w+)(?::\w+)?\}", lambda m: self._fill(m[1], rng, depth), text)

    def _fill(self, name: str, rng: random.Random, depth: int) -> str:
        if name in FILLERS:
            return rng.choice(FILLERS[name])
        known = self.lists.get(name, {})
        if "range" in known:
            return str(rng.randrange(int(known["range"]["from"]), int(known["range"]["to"]) + 1))
        if "values" in known:
            value = rng.choice(known["values"])
            return self._expand(value["in"] if isinstance(value, dict) else value, rng, depth + 1)
        return "it"

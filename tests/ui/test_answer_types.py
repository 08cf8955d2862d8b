"""Answers have the forms that the page's scripts have as types."""

from __future__ import annotations

from typing import Final

import aiohttp
import msgspec
import pytest
from pydantic import BaseModel

from scheduler.ui.answers import Answered
from scheduler.ui.server import UiServer
from tests.ui.answer_types import ANSWERS, FOLLOWED, PATH, declarations
from tests.ui.worlds import shared, source

QUESTIONS: Final = {
    "about": "about",
    "overview": "overview",
    "devices": "devices?near=numa",
    "device": "device?driver=gpu.example.com&pool=node-1&name=gpu-0",
    "pending": "pending",
    "pod": "pod?namespace=default&name=waits",
    "whatif": "whatif?pod=default/waits&copies=2",
    "whatif?room": "whatif?room=default/waits",
    "whatif?drain": "whatif?drain=node-1/gpu-0",
}


def test_the_scripts_have_the_types_of_the_answers() -> None:
    assert PATH.read_text() == declarations(), "python -m tests.ui.answer_types"


def test_each_answer_with_a_form_is_asked_for_here() -> None:
    assert QUESTIONS.keys() == ANSWERS.keys()


@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_has_its_form(name: str) -> None:
    async with (
        UiServer(source(*shared())) as server,
        aiohttp.ClientSession() as session,
        session.get(f"{server.url}api/{QUESTIONS[name]}") as reply,
    ):
        form, body = ANSWERS[name], await reply.read()
        if issubclass(form, BaseModel):
            form.model_validate_json(body)
        else:
            msgspec.json.decode(body, type=form)
        if form in FOLLOWED:
            msgspec.json.decode(body, type=Answered)

"""What the `demo` model understands of a user's text, as tables.

Texts are anybody's, and 100 KB of them must not take longer than a blink. So a pattern is tried from few places, and
quantifiers that could share characters with what follows them are bounded or possessive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

# Parts of the rules.

MARKS = "\"“”‘’'`「」"
_LETTER = rf"[^\s{MARKS},，。!！?？()（）=]"
_NAME = rf"[{MARKS}]?(?P<name>{_LETTER}{{1,140}})[{MARKS}]?"
_NOTE = r"(?:(?:,? [(（]?|[(（])(?:with )?(?:the |a )?(?:note|备注)[:：]? ?(?P<note>[^()（）]+)[)）]?)?"
_TIMER = r"(?:timer|counter|stopwatch)"
_THE = r"(?:(?:a|an|the|my|this) )?(?:new )?"
_MODE = r"(?P<mode>fine|turn|off|cron)"
_VERBS = {
    "start": ("start|begin|restart", "开始|启动|新建"),
    "remove": ("stop|remove|delete|end", "停止|删除|移除"),
    "reset": ("reset", "重置"),
}

# Actions match a whole line, without what TRAILING holds at its end. Named groups are arguments of the tool, beside the
# given ones.

TRAILING = " .!?。！？"
_ACTIONS: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    *(
        (pattern, "time_counter", {"action": action})
        for action, (english, chinese) in _VERBS.items()
        for pattern in (
            rf"(?:{english}) {_THE}{_TIMER} (?:(?:called|named|for) )?{_NAME}{_NOTE}",
            rf"(?:{english}) {_THE}{_NAME} {_TIMER}{_NOTE}",
            rf"(?:{chinese})(?:一个)?(?:新的?)?计时器 ?{_NAME}{_NOTE}",
            rf"(?:{chinese})(?:一个)?(?:名为|叫)? ?{_NAME} ?的?计时器{_NOTE}",
        )
    ),
    (rf"(?:list|show)(?: me)?(?: all)?(?: the| my)?(?: running)? {_TIMER}s?", "time_counter", {"action": "list"}),
    (r"(?:列出|显示)(?:所有|全部)?的?计时器", "time_counter", {"action": "list"}),
    (rf"(?:switch|set|turn|change) (?:the )?clock (?:to )?{_MODE}(?: (?P<cron>.+))?", "time_mode", {}),
    (r"(?:switch|turn) (?P<mode>off) the clock", "time_mode", {}),
    (rf"把?时钟(?:模式)?(?:切换|切|改|设|调)(?:到|成|为) ?{_MODE}(?: (?P<cron>.+))?", "time_mode", {}),
    (r"(?:ask|tell|let|have) (?:a |the )?sub-?agent (?:to )?(?P<prompt>.+)", "subagent", {}),
    (r"delegate(?: to (?:a |the )?sub-?agent)?:? (?P<prompt>.+)", "subagent", {}),
    (r"让(?:一个)?子(?:代理|智能体)[:：]? ?(?P<prompt>.+)", "subagent", {}),
)
ACTIONS = tuple(
    (re.compile(rf"(?:please |can you |could you |请)?{pattern}", re.IGNORECASE), tool, given)
    for pattern, tool, given in _ACTIONS
)

# `call TOOL …` stands on a line of its own; its rest is JSON or pairs.

CALL = re.compile(r"\s*(?:(?:please\s+)?call|调用)\s+`?(?P<tool>[\w/-]{1,128})`?[.!?]*+(?P<rest>.*)", re.IGNORECASE)
PAIR = re.compile(r'\s*(?:with\s+)?(\w{1,128})=("(?:[^"\\]|\\.)*+"|\S*+)')

# Questions are looked for anywhere, in all lines without an action. A group `name` is a timer's name.

Subject = Literal["time", "gap", "timers"]
_QUESTIONS: tuple[tuple[Subject, str], ...] = (
    (
        "time",
        (
            r"what(?:'s|’s| is) (?:the |today'?s )?(?:current |local )?(?:time|date|day|weekday)\b(?! since| between)"
            r"|\btime is it|\b(?:what|which) (?:week)?day|\bwhat date|\btell (?:me )?(?:the )?(?:time|date)\b(?! since)"
            r"|\bdate today|\btoday's date|\bcurrent (?:time|date)"
            r"|几点|几号|星期几|周几|礼拜几|什么时间|什么日期|现在.{0,6}时间|今天.{0,4}日期"
        ),
    ),
    (
        "gap",
        (
            r"\bhow (?:long|much time)\b.{0,40}\b(?:since|passed|elapsed|ago)\b|\bhow long has it been(?! running)"
            r"|\bsince (?:my|the|your|our) (?:last|previous)\b|\bgap\b|\belapsed\b"
            r"|过了多久|过去了?多久|多久没|隔了?多久|距.{0,20}多久|间隔"
        ),
    ),
    (
        "timers",
        (
            rf"\bhow long (?:has|have|is) (?:the |my )?(?:{_TIMER} (?:called |named )?)?(?!{_TIMER}|it )"
            rf"{_NAME}(?: {_TIMER})? (?:been )?(?:running|going)"
        ),
    ),
    (
        "timers",
        rf"(?<!\S)(?:计时器 ?)?(?P<name>{_LETTER}{{1,140}}?) ?(?:计时器)?(?:已经)?(?:跑|运行)了?多(?:久|长时间)",
    ),
    (
        "timers",
        (
            rf"\b(?:which|what|any)\b.{{0,40}}\b{_TIMER}s?\b|\bhow long (?:has|have|is) (?:(?:the |my )?{_TIMER}s?|it) "
            r"(?:been )?running|计时器(?!.{0,150}(?:跑|运行)了)"
        ),
    ),
)
QUESTIONS = tuple((subject, re.compile(pattern, re.IGNORECASE)) for subject, pattern in _QUESTIONS)

"""What columns are called: by the names that people and programs give them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

#: What the parts of a file are called; rows of ``train`` are left out.
PARTS = {
    "holdout": (
        "holdout hold_out held_out heldout val valid validation dev devel development cal calib "
        "calibration tune tuning"
    ),
    "test": "test testing tst eval evaluation source_test",
    "user": (
        "user production prod serving serve deploy deployed deployment live shifted target_domain "
        "ood inference"
    ),
    "member": "member members",
    "nonmember": "nonmember nonmembers non_member non_members",
    "train": "train training trn fit",
}
PART_OF = {word: part for part, words in PARTS.items() for word in words.split()}
#: The same in cells, and of pairs of arrays: elsewhere a target is a label.
DOMAIN_OF = {"source": "test", "target": "user", "in_domain": "test", "out_of_domain": "user"}

# By role, words that say it; the first list of a role is surer than the second.
_NAMES = {
    "part": "part parts split splits subset partition phase data_split dataset_split",
    "part?": "dataset data_set set",
    "label": (
        "y_true ytrue true truth ground_truth groundtruth gt gold golds gold_label gold_labels "
        "gold_answer true_label true_labels true_class truelabel trueclass y_actual actual actuals "
        "actual_class actual_label label_true class_true reference references correct_label "
        "correct_answer correct_class expected observed annotation annotated y_test y_val "
        "target_label real_label label_gt gt_label ground_truth_label obs expected_label "
        "expected_class expected_answer expected_output ideal reference_answer reference_output "
        "human_label manual_label annotator_label gold_class true_category true_outcome "
        "actual_outcome gt_class gt_cls true_cls"
    ),
    "label?": (
        "label labels y target targets class classes class_label outcome outcomes answer category "
        "label_id label_ids class_id label_idx class_idx target_id answerkey answer_key solution"
    ),
    "prediction": (
        "y_pred ypred pred preds prediction predictions predicted predicted_label predicted_labels "
        "predicted_class pred_label pred_labels pred_class pred_cls predclass predlabel y_hat yhat "
        "y_predicted model_prediction predict argmax predicted_answer model_answer pred_answer "
        "model_output guess top1 top_1 top1_label label_pred class_pred prediction_label "
        "prediction_class predicted_category predicted_id pred_id actual_output"
    ),
    "prediction?": "output outputs response responses decision answer system hypothesis",
    "confidence": (
        "confidence confidences conf max_prob max_probability max_proba maxprob msp top1_prob "
        "top_prob top1_probability top_probability prediction_probability prediction_confidence "
        "pred_conf pred_confidence confidence_score certainty max_softmax softmax_response "
        "logprob log_prob answer_logprob mean_logprob avg_logprob sum_logprob cumulative_logprob "
        "predicted_class_probability top1_conf top_1_prob top1_score prob_pred conf_max p_correct "
        "prob_correct correct_prob correct_probability probability_correct"
    ),
    "probability": (
        "probability prob probs proba p y_prob y_proba y_score y_probs pred_proba pred_prob "
        "predicted_probability predicted_prob predicted_proba prediction_score prediction_prob "
        "oof_proba oof_prob oof oof_pred p1 p_1 prob_1 proba_1 prob1 p_pos p_positive prob_pos "
        "pos_prob prob_positive positive_probability positive_prob proba_pos risk predicted_risk "
        "risk_score model_score model_prob y_pred_proba y_pred_prob y_pred_score sigmoid "
        "output_prob class_1_prob prob_class_1 probability_1 y_prob_1 p_1_ likelihood event_prob "
        "phat p_hat pihat pre_1 "
        "default_probability churn_probability scored_probability scored_probabilities"
    ),
    "probability?": "score scores output value",
    "logit": "logit logits decision_function decision_score raw_score raw_logit logit_1 margin z",
    "correct": (
        "correct is_correct iscorrect hit hits right acc exact_match em correctness is_right "
        "prediction_correct matched"
    ),
    "abstained": "abstained abstain abstention is_abstained rejected deferred refused",
    "group": "group groups subgroup slice segment cohort site",
    "group?": (
        "domain hospital clinic region country center centre race ethnicity sex gender language "
        "lang subject_area category topic model model_name model_id classifier algorithm "
        "variant method approach representation filter"
    ),
    "cluster?": (
        "id ids uid guid item_id sample_id example_id instance_id image_id doc_id "
        "question_id study_id exam_id image filename file_name"
    ),
    "cluster": (
        "cluster clusters cluster_id patient patient_id patientid pid subject subject_id subjectid "
        "user_id userid session session_id sessionid participant participant_id person_id "
        "household household_id customer_id client_id visit_id account_id speaker speaker_id "
        "author_id document_id"
    ),
}
ROLES = {word: role for role, words in reversed(_NAMES.items()) for word in words.split()}
#: What ``--map`` may name.
MAPPED = ("part", "label", "prediction", "confidence", "correct", "probability", "logit",
          "probabilities", "log_probabilities", "logits", "abstained", "group", "cluster", "first",
          "positive")  # fmt: skip
# Beginnings and ends of names that only say what a column is of; what else they hold is looked at.
_ENDS = ("label", "labels", "true", "truth", "pred", "prediction", "proba", "prob", "probability",
         "correct", "conf", "confidence")  # fmt: skip
_SAID = {"pred", "predicted", "prediction", "scored", "estimated", "output", "model", "hat"}
_SPREAD = {"std", "sd", "stderr", "variance", "var", "entropy"}  # no output by itself
_BEGINS = ("y_pred", "y_true", "pred", "prediction", "gold", "prob", "proba")

_TOKEN = (
    "probabilities|probability|probas|proba|probs|prob|pr|p|softmax|log_?likelihoods?|log_?probs?|"
    "log_?p|logits|logit|scores|score|confidence|conf|class|classes|outputs|output|predictions|"
    "prediction|preds|pred|yhat|likelihood|sigmoid|votes|vote|y|label|labels|target|onehot|one_hot"
)
_GAP = "[^<>≤≥a-z0-9\u0080-\U0010ffff]+"  # between words; such as <=50K begin with a sign
_BEFORE = re.compile(
    rf"((?:.*[^a-z])?(?:{_TOKEN}))(?:{_GAP}(?=-\d)|{_GAP}|(?=\d))(.+?)[)\]}}\x22\x27]*", re.I
)
_JOINED = re.compile(r"((?:.*[^a-z])?(?:proba|prob|logit|score|pred))([a-z][\w ]*?)", re.I)
_AFTER = re.compile(rf"(.+?){_GAP}({_TOKEN})", re.I)
_LAST = re.compile(rf"(.+){_GAP}([^\W_]+)", re.I)  # anything before the last word
_TRUTH = re.compile(
    r"(.+?)[^a-z0-9]+(outcome|actual|true|truth|onehot|one_hot|label|target|gt|result|observed)",
    re.I,
)
_PAIR = re.compile("(?:y_)?pred(?:icted|iction)?_(.+)|(.+)_(?:pred|predicted|prediction|hat)")
_OF_NAMES = re.compile("(class|label|target|category)(es|s)?(_names?)?|categories|(class_)?names")
#: What columns of one-hot labels begin with.
ONE_HOT = ("label", "labels", "target", "targets", "y", "true", "truth", "gt", "gold", "onehot")


@dataclass(frozen=True)
class Family:
    """Columns that differ in what may be the name of a class: that name, and the column."""

    before: str
    after: str
    columns: dict[str, str]

    @property
    def vague(self) -> bool:
        """Whether no word in the names says that these are outputs of a model."""
        return self.after == "any"

    @property
    def of_labels(self) -> bool:
        """Whether the names begin as those of one-hot labels do."""
        return self.before.split("_")[-1] in ONE_HOT

    @property
    def shown(self) -> str:
        """The columns for people."""
        names = [*self.columns.values()]
        middle = ", ..., " if len(names) > 2 else ", "
        return f"'{names[0]}'{middle}'{names[-1]}'"

    @property
    def pattern(self) -> str:
        """The columns for ``--map``."""
        names = [*self.columns.values()]
        head = names[0]
        while not all(name.startswith(head) for name in names):
            head = head[:-1]
        tail = names[0]
        while not all(name.endswith(tail) for name in names):
            tail = tail[1:]
        return f"{head}*{tail}".replace("[", "[[]")


def plain(name: str) -> str:
    """A name in small letters with words joined by ``_``."""
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", str(name)).lower()
    return re.sub(r"[^a-z0-9]+", "_", text).strip("_") or str(name).strip().lower()


def counted(n: int, word: str) -> str:
    """A number of things: ``1 row``, ``2 rows``."""
    return f"{n:,} {word}{'s' if n != 1 else ''}"


@lru_cache(maxsize=1 << 15)
def role_of(name: str) -> str:
    """The role that a name says, with ``?`` where it is not sure, ``??`` by a part; else empty."""
    word = plain(name).removesuffix("_percent").removesuffix("_pct")
    if word in ROLES:
        return ROLES[word]
    if is_spread(name):
        return ""
    for begin in _BEGINS:
        if word.startswith(f"{begin}_"):
            return f"{ROLES[begin].rstrip('?')}??"
    for end in _ENDS:
        if word.endswith(f"_{end}"):
            role = ROLES[end].rstrip("?")
            said = role == "label" and bool(_SAID & set(word.split("_")))
            return f"{'prediction' if said else role}??"
    return ""


def paired(names: Iterable[str]) -> tuple[str, str] | None:
    """What is true and what was predicted, where one pair alone is called so by no other word.

    Such as ``species`` and ``predicted_species``.
    """
    by_word = {plain(name): name for name in names}
    found = [
        (by_word[base], name)
        for word, name in by_word.items()
        if role_of(name) in ("", "prediction??")
        and (match := _PAIR.fullmatch(word))
        and (base := match[1] or match[2]) in by_word
        and role_of(by_word[base]).rstrip("?") in ("", "group")
    ]
    return found[0] if len(found) == 1 else None


def is_spread(name: str) -> bool:
    """Whether a name says that numbers are of how far others vary."""
    return bool(_SPREAD & set(plain(name).split("_")))


def is_of_names(name: str) -> bool:
    """Whether an array is called one of the names of classes, such as ``class_names``."""
    return bool(_OF_NAMES.fullmatch(plain(name)))


def part_of(word: str, domains: bool = False) -> str | None:
    """The part of a file that a word names; `domains` are the source and the target too."""
    found = PART_OF.get(plain(word))
    return found or (DOMAIN_OF.get(plain(word)) if domains else None)


def families(names: Iterable[str]) -> list[Family]:
    """Sets of at least two columns whose names differ in one place, the largest first.

    A column may be in several.
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    names = [*names]
    words = {name.strip().lower() for name in names}
    for name in names:
        text, after = name.strip(), ""
        truth = _TRUTH.fullmatch(text)
        classes = f"{text[:-4].lower()}false" in words  # prob_True beside prob_False is no truth
        if truth and not classes and not _AFTER.fullmatch(truth[1]):
            text, after = truth[1], truth[2].lower()
        for kind in (_BEFORE, _JOINED):
            if match := kind.fullmatch(text):
                found.setdefault((match[1].lower(), after), {}).setdefault(match[2], name)
        if after:
            found.setdefault(("", after), {}).setdefault(text, name)
        elif match := _AFTER.fullmatch(text):
            found.setdefault(("", match[2].lower()), {}).setdefault(match[1], name)
        elif match := _LAST.fullmatch(text):
            found.setdefault((match[1].lower(), "any"), {}).setdefault(match[2], name)
    sets = [Family(*key, columns) for key, columns in found.items() if len(columns) > 1]
    return sorted(sets, key=lambda one: -len(one.columns))


def threshold_text(value: float) -> str:
    """With three digits, or more where it is close to 1, as it is for models that are too sure."""
    for digits in range(3, 18):
        text = f"{value:.{digits}g}"
        if abs(float(text) - value) <= 5e-3 * min(abs(value), abs(1 - value)):
            break
    return text

package podhold

import (
	"slices"
	"time"
)

const (
	// LabelAsks is the label of a Node whose status has a Question.
	LabelAsks = "breakwater.dev/node-guard-asks"
	// LabelAnswers is the label of the ConfigMaps with Answers, in the namespace of Breakwater in a worker cluster.
	LabelAnswers = "breakwater.dev/node-guard-answers"
	// AnswersKey is their key with a JSON list of answers.
	AnswersKey = "answers.json"
)

// Ref names a protector: the ConfigMap that publishes it, its namespace and its name, separated by slashes. Cells of several cores can have
// protectors of one namespace and name.
type Ref string

// RefOf returns the Ref of a protector.
func RefOf(p Protected) Ref { return Ref(p.List + "/" + p.Namespace + "/" + p.Name) }

// Question is what a guard asks the aggregators of its cluster: which of these protectors have as many pods as their floor. It holds pods of
// them that it cannot register, so that no count includes these.
type Question struct {
	// ID is random, so that an answer with it was computed after the question was asked.
	ID string `json:"id"`
	// Protectors are at most MaxReported.
	Protectors []Ref `json:"protectors"`
}

// Answer is what an aggregator answers to the guard of a node.
type Answer struct {
	Node string `json:"node"`
	// Question is the ID of the question.
	Question string `json:"question"`
	// Satisfied are the protectors that had as many pods as their floor when the aggregator counted them, after it had read the question.
	Satisfied []Ref `json:"satisfied"`
}

// Asked is a question of the guard of a node, and when it was asked by the running time of that guard. The zero value is none.
type Asked struct {
	Question
	Node string
	At   time.Duration
}

const (
	// SettleTime is how long a pod is held before its guard asks whether it is needed. A restored API server has pods that do not run, and
	// shows them as ready until their kubelets report, or until their nodes are found to be dead.
	SettleTime = 2 * time.Minute
	// AskEvery is how often a guard asks again. An answer counts for maxAnswerAge after its question.
	AskEvery     = time.Minute
	maxAnswerAge = 2 * time.Minute
)

// MayAsk reports whether a guard asks, at this running time, about a held pod that it cannot register.
func MayAsk(held Entry, running time.Duration) bool {
	return held.IsHeld() && running-held.HeldAt >= SettleTime
}

// IsSatisfied reports whether the protectors of a held pod have as many pods as their floors without it (rule N8): an aggregator counted each
// of them after the pod had been held for SettleTime, and at most maxAnswerAge ago.
func IsSatisfied(held Entry, protectors []Ref, asked Asked, answers []Answer, running time.Duration) bool {
	age := running - asked.At
	if len(protectors) == 0 || asked.ID == "" || !MayAsk(held, asked.At) || age < 0 || age > maxAnswerAge {
		return false
	}
	return !slices.ContainsFunc(protectors, func(p Ref) bool {
		return !slices.ContainsFunc(answers, func(a Answer) bool {
			return a.Node == asked.Node && a.Question == asked.ID && slices.Contains(a.Satisfied, p)
		})
	})
}

package chaos

import (
	"github.com/anishathalye/porcupine"
	"k8s.io/apimachinery/pkg/types"
)

// The model: a protector is a budget and a set of reserved UIDs.
//
//   - allow(UID) is legal if the UID is already reserved, or if there is budget, which it then takes.
//   - deny is always legal and changes nothing, so denials are left out of the history.
//   - gain: a pod became available. It adds budget, at some time between the bounds of its fact.
//
// The omissions of the model make it laxer, never stricter. A removal that was admitted and failed elsewhere takes no budget here. A pod
// that dies by itself tightens the budget only when a snapshot shows it, at a time that only Breakwater can tell. The count of available
// pods from the truth includes all of these.
type operation struct {
	gain bool
	uid  types.UID
	name string
}

// modelState is the model's state. reserved has one byte for each UID, so that states can be compared.
type modelState struct {
	budget   int
	reserved string
}

func model(budget int, places map[types.UID]int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return modelState{budget: budget, reserved: string(make([]byte, len(places)))} },
		Step: func(state, input, _ any) (bool, any) {
			at, op := state.(modelState), input.(operation)
			if op.gain {
				return true, modelState{budget: at.budget + 1, reserved: at.reserved}
			}
			place := places[op.uid]
			if at.reserved[place] == 1 {
				return true, at
			}
			if at.budget <= 0 {
				return false, at
			}
			reserved := []byte(at.reserved)
			reserved[place] = 1
			return true, modelState{budget: at.budget - 1, reserved: string(reserved)}
		},
		Equal: func(a, b any) bool { return a == b },
	}
}

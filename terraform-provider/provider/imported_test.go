package provider_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
)

// remembered holds the attributes of resources in a state, keyed by address.
type remembered map[string]map[string]any

// CheckState stores the attributes of a state.
func (r remembered) CheckState(_ context.Context, request statecheck.CheckStateRequest, _ *statecheck.CheckStateResponse) {
	for _, one := range request.State.Values.RootModule.Resources {
		r[one.Address] = one.AttributeValues
	}
}

// importedAs checks that a plan imports all remembered resources with their remembered attributes.
type importedAs remembered

func (was importedAs) CheckPlan(_ context.Context, request plancheck.CheckPlanRequest, response *plancheck.CheckPlanResponse) {
	missing := maps.Clone(was)
	var wrong []error
	for _, change := range request.Plan.ResourceChanges {
		before, ok := change.Change.Before.(map[string]any)
		if change.Change.Importing == nil || !ok {
			wrong = append(wrong, fmt.Errorf("%s is not imported: %v", change.Address, change.Change.Actions))
			continue
		}
		delete(missing, change.Address)
		if diff := cmp.Diff(stored(change.Address, was[change.Address]), stored(change.Address, before)); diff != "" {
			wrong = append(wrong, fmt.Errorf("%s (-set +imported)\n%s", change.Address, diff))
		}
	}
	for address := range missing {
		wrong = append(wrong, fmt.Errorf("%s is not in the plan", address))
	}
	response.Error = errors.Join(wrong...)
}

// stored returns the attributes of a resource that its object stores. It omits attributes that only Terraform has, and empty
// values.
func stored(address string, attributes map[string]any) map[string]any {
	all := map[string]any{}
	for name, value := range attributes {
		switch name {
		case "deletion_protection", "force_conflicts", "timeouts":
			continue
		case "labels", "annotations", "admission_history":
			if strings.HasSuffix(address, ".empty") {
				continue
			}
		}
		if value = filled(value); value != nil {
			all[name] = value
		}
	}
	return all
}

// filled returns a value without its empty parts; nil if nothing is left.
func filled(value any) any {
	switch value := value.(type) {
	case map[string]any:
		all := map[string]any{}
		for name, one := range value {
			if one = filled(one); one != nil {
				all[name] = one
			}
		}
		if len(all) > 0 {
			return all
		}
		return nil
	case []any:
		if len(value) == 0 {
			return nil
		}
	}
	return value
}

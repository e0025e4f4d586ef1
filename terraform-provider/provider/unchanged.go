package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// PlanResourceChange answers at once if nothing changes, which is so for most resources of most plans. The framework would come to the same answer,
// after it has walked through all attributes several times.
func (s *server) PlanResourceChange(ctx context.Context, req *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	if s.isUnchanged(req) {
		return &tfprotov6.PlanResourceChangeResponse{
			PlannedState: req.PriorState, PlannedPrivate: req.PriorPrivate, PlannedIdentity: req.PriorIdentity,
		}, nil
	}
	return s.fullServer.PlanResourceChange(ctx, req)
}

// isUnchanged reports whether the state is the configuration with its defaults. It reports false if that takes more than a comparison.
func (s *server) isUnchanged(req *tfprotov6.PlanResourceChangeRequest) bool {
	k := s.kinds[req.TypeName]
	if k == nil || k.kubeconfigs || req.PriorState == nil || req.ProposedNewState == nil || req.Config == nil || req.PriorIdentity == nil {
		return false
	}
	if len(req.PriorState.MsgPack) == 0 || !bytes.Equal(req.PriorState.MsgPack, req.ProposedNewState.MsgPack) {
		return false
	}
	of := s.schemas().types[req.TypeName]
	configured, err := req.Config.Unmarshal(of)
	if err != nil {
		return false
	}
	state, err := req.PriorState.Unmarshal(of)
	return err == nil && k.isComplete(configured, state)
}

// ReadResource answers at once if a list has the object, and it is as in the state. Otherwise it reads the object.
func (s *server) ReadResource(ctx context.Context, req *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	if s.isFresh(ctx, req) {
		return &tfprotov6.ReadResourceResponse{NewState: req.CurrentState, Private: req.Private, NewIdentity: req.CurrentIdentity}, nil
	}
	return s.fullServer.ReadResource(ctx, req)
}

// isFresh reports whether a list has the object as it is in the state, and nothing is left to report or to record.
func (s *server) isFresh(ctx context.Context, req *tfprotov6.ReadResourceRequest) bool {
	k, c := s.kinds[req.TypeName], s.cluster()
	if k == nil || k.kubeconfigs || c.absence() != nil || req.CurrentState == nil || req.CurrentIdentity == nil {
		return false
	}
	of := s.schemas().types[req.TypeName]
	state, err := req.CurrentState.Unmarshal(of)
	if err != nil || !state.IsKnown() || state.IsNull() {
		return false
	}
	w, err := k.desired(state)
	if err != nil || !k.isIdentity(req.CurrentIdentity, w) {
		return false
	}
	var private map[string][]byte
	var last, cluster string
	if json.Unmarshal(req.Private, &private) != nil || len(private) != 2 || json.Unmarshal(private[managerKey], &last) != nil ||
		json.Unmarshal(private[clusterKey], &cluster) != nil || cluster != c.uid(ctx) || c.identity.expected != "" && cluster != c.identity.expected {
		return false
	}
	live, ok := c.lists.Peek(ctx, k.key(w.namespace), w.name)
	if !ok || live.GetDeletionTimestamp() != nil {
		return false
	}
	refreshed, err := k.refreshedState(state, live, last, c.manager)
	return err == nil && isEncoded(refreshed, req.CurrentState)
}

// isIdentity reports whether the identity of a resource is that of the object, and has no other attributes.
func (k *kind) isIdentity(identity *tfprotov6.ResourceIdentityData, w *desired) bool {
	types, want := map[string]tftypes.Type{"name": tftypes.String}, map[string]tftypes.Value{"name": stringValue(w.name)}
	if k.Namespaced {
		types["namespace"], want["namespace"] = tftypes.String, stringValue(w.namespace)
	}
	return isEncoded(tftypes.NewValue(tftypes.Object{AttributeTypes: types}, want), identity.IdentityData)
}

// isEncoded reports whether Terraform sent the value.
func isEncoded(v tftypes.Value, sent *tfprotov6.DynamicValue) bool {
	encoded, err := tfprotov6.NewDynamicValue(v.Type(), v)
	return err == nil && sent != nil && bytes.Equal(encoded.MsgPack, sent.MsgPack)
}

// UpgradeResourceState returns a state of the current version as it is, unless it has attributes that the schema has not.
func (s *server) UpgradeResourceState(ctx context.Context, req *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	all := s.schemas()
	if schema := all.ResourceSchemas[req.TypeName]; schema != nil && schema.Version == req.Version && req.RawState != nil && len(req.RawState.JSON) > 0 {
		if _, err := req.RawState.Unmarshal(all.types[req.TypeName]); err == nil {
			return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: &tfprotov6.DynamicValue{JSON: req.RawState.JSON}}, nil
		}
	}
	return s.fullServer.UpgradeResourceState(ctx, req)
}

// isComplete reports whether a state is a configuration with its defaults, so that a plan changes no attribute. It reports false if a value is
// unknown.
func (k *kind) isComplete(configured, state tftypes.Value) bool {
	if !configured.IsFullyKnown() || configured.IsNull() || state.IsNull() {
		return false
	}
	now, err := k.desired(configured)
	if err != nil {
		return false
	}
	had, err := k.desired(state)
	spec, _ := now.object.Object["spec"].(map[string]any)
	if err != nil || !reflect.DeepEqual(k.Spec.Fields.WithDefaults(spec), had.object.Object["spec"]) {
		return false
	}
	all, defaults := had.attributes, k.behaviorDefaults()
	for name, want := range now.attributes {
		if slices.ContainsFunc(k.Spec.Fields, func(f *shape.Field) bool { return f.Name == name }) {
			continue
		}
		if name == "id" || name == "uid" {
			want = all[name]
		} else if v, ok := defaults[name]; ok && want.IsNull() {
			want = v
		}
		if !want.Equal(all[name]) {
			return false
		}
	}
	return !all["id"].IsNull() && !all["uid"].IsNull()
}

package provider_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// invoke plans and then invokes an action. It returns the progress messages and the diagnostics.
func (s *protocolClient) invoke(name string, config values) (told, complaint string) {
	s.t.Helper()
	server := s.ProviderServer.(tfprotov6.ActionServer)
	schema := s.schemas.ActionSchemas[name]
	if schema == nil {
		s.t.Fatalf("provider has no action %s", name)
	}
	given := s.object(schema.Schema, config)
	plan, err := server.PlanAction(s.t.Context(), &tfprotov6.PlanActionRequest{ActionType: name, Config: given})
	if err != nil {
		s.t.Fatal(err)
	}
	s.wantNoDiagnostics(plan.Diagnostics)
	stream, err := server.InvokeAction(s.t.Context(), &tfprotov6.InvokeActionRequest{ActionType: name, Config: given})
	if err != nil {
		s.t.Fatal(err)
	}
	var all []string
	for event := range stream.Events {
		switch e := event.Type.(type) {
		case tfprotov6.ProgressInvokeActionEventType:
			all = append(all, e.Message)
		case tfprotov6.CompletedInvokeActionEventType:
			complaint = diagnosticText(e.Diagnostics)
		}
	}
	return strings.Join(all, "\n"), complaint
}

// validate validates the configuration of an action and returns the diagnostics.
func (s *protocolClient) validate(name string, config values) string {
	s.t.Helper()
	resp, err := s.ProviderServer.(tfprotov6.ActionServer).ValidateActionConfig(s.t.Context(), &tfprotov6.ValidateActionConfigRequest{
		ActionType: name, Config: s.object(s.schemas.ActionSchemas[name].Schema, config),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return diagnosticText(resp.Diagnostics)
}

func TestActionIsDeferred(t *testing.T) {
	s := newProtocolClientWithoutCluster(t)
	for name, config := range map[string]values{
		"breakwater_release":     {"namespace": stringArgument("shop"), "name": stringArgument("web")},
		"breakwater_remove_cell": {"all_protectors": trueArgument(), "cell": stringArgument("worker-1")},
	} {
		t.Run(name, func(t *testing.T) {
			req := &tfprotov6.PlanActionRequest{ActionType: name, Config: s.object(s.schemas.ActionSchemas[name].Schema, config)}
			for _, allowed := range []bool{true, false} {
				req.ClientCapabilities = &tfprotov6.PlanActionClientCapabilities{DeferralAllowed: allowed}
				resp, err := s.ProviderServer.(tfprotov6.ActionServer).PlanAction(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				s.wantNoDiagnostics(resp.Diagnostics) // a plan needs no cluster
				if (resp.Deferred != nil) != allowed || allowed && resp.Deferred.Reason != tfprotov6.DeferredReasonProviderConfigUnknown {
					t.Errorf("deferral allowed %t: got %+v", allowed, resp.Deferred)
				}
			}
			if _, complaint := s.invoke(name, config); !strings.Contains(complaint, "The provider has no cluster") {
				t.Errorf("action without a cluster: got %q", complaint)
			}
		})
	}
}

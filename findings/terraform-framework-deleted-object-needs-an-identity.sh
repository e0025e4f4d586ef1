#!/usr/bin/env bash
# terraform-plugin-framework v1.19.0: a resource with an identity schema must set the identity in Read even when it has just removed itself from the
# state because its object is gone. Terraform before 1.12 knows no identities and sends none, so a provider that does what the documentation of
# Read shows (resp.State.RemoveResource, return) makes each refresh of a deleted object an error there: the plan that should create the object again,
# the apply and the destroy all fail. Terraform 1.12 and later send the stored identity back, so its tests pass.
#
# Output seen:
#   identity sent by Terraform: removed from the state, 0 diagnostics
#   no identity sent:           removed from the state, 1 diagnostics
#     Missing Resource Identity After Read
#   no identity sent, set before it is removed: removed from the state, 0 diagnostics
#
# What helps: set the identity first, in each Read, and remove the resource then.
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
export CGO_ENABLED=0 GOFLAGS=-mod=mod
cat >go.mod <<'EOF'
module finding

go 1.26

require (
	github.com/hashicorp/terraform-plugin-framework v1.19.0
	github.com/hashicorp/terraform-plugin-go v0.31.0
)
EOF
cat >main.go <<'EOF'
package main

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

type gone struct{ setsIdentity bool }

func (gone) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "finding_gone"
}

func (gone) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{Attributes: map[string]schema.Attribute{"name": schema.StringAttribute{Required: true}}}
}

func (gone) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identityschema.Schema{Attributes: map[string]identityschema.Attribute{"name": identityschema.StringAttribute{RequiredForImport: true}}}
}

func (gone) Create(context.Context, resource.CreateRequest, *resource.CreateResponse) {}
func (gone) Update(context.Context, resource.UpdateRequest, *resource.UpdateResponse) {}
func (gone) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}

func (g gone) Read(ctx context.Context, _ resource.ReadRequest, resp *resource.ReadResponse) {
	if g.setsIdentity {
		resp.Diagnostics.Append(resp.Identity.SetAttribute(ctx, path.Root("name"), "web")...)
	}
	resp.State.RemoveResource(ctx)
}

type one struct{ gone }

func (one) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "finding"
}
func (one) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse)          {}
func (one) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {}
func (one) DataSources(context.Context) []func() datasource.DataSource                        { return nil }
func (o one) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return o.gone }}
}

func read(label string, setsIdentity, sendsIdentity bool) int {
	ctx := context.Background()
	of := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"name": tftypes.String}}
	object := tftypes.NewValue(of, map[string]tftypes.Value{"name": tftypes.NewValue(tftypes.String, "web")})
	state, err := tfprotov6.NewDynamicValue(of, object)
	if err != nil {
		panic(err)
	}
	request := &tfprotov6.ReadResourceRequest{TypeName: "finding_gone", CurrentState: &state}
	if sendsIdentity {
		request.CurrentIdentity = &tfprotov6.ResourceIdentityData{IdentityData: &state}
	}
	resp, err := providerserver.NewProtocol6(one{gone{setsIdentity}})().ReadResource(ctx, request)
	if err != nil {
		panic(err)
	}
	after, err := resp.NewState.Unmarshal(of)
	if err != nil {
		panic(err)
	}
	what := "still in the state"
	if after.IsNull() {
		what = "removed from the state"
	}
	fmt.Printf("%s %s, %d diagnostics\n", label, what, len(resp.Diagnostics))
	for _, d := range resp.Diagnostics {
		fmt.Println("  " + d.Summary)
	}
	return len(resp.Diagnostics)
}

func main() {
	sent := read("identity sent by Terraform:", false, true)
	missing := read("no identity sent:          ", false, false)
	set := read("no identity sent, set before it is removed:", true, false)
	if sent != 0 || missing != 1 || set != 0 {
		panic("the behavior has changed")
	}
}
EOF
go run .

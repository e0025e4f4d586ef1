package provider

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
)

// ImportState imports an object by namespace/name, or by its identity. Read fills in the rest.
func (o *object) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	var namespace, name string
	if req.ID == "" {
		resp.Diagnostics.Append(req.Identity.GetAttribute(ctx, path.Root("name"), &name)...)
		if o.kind.Namespaced {
			resp.Diagnostics.Append(req.Identity.GetAttribute(ctx, path.Root("namespace"), &namespace)...)
		}
	} else {
		var ok bool
		if namespace, name, ok = o.kind.parseID(req.ID); !ok {
			resp.Diagnostics.AddError("Not the name of a "+o.kind.Kind.Kind,
				fmt.Sprintf("%q is not the name of a %s. Import it by %s.", req.ID, o.kind.Kind.Kind, o.kind.idForm()))
			return
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("name"), name)...)
	if o.kind.Namespaced {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("namespace"), namespace)...)
	}
	if o.cluster != nil {
		resp.Diagnostics.Append(o.cluster.recordManager(ctx, resp.Private)...)
	}
	if resp.Identity != nil {
		o.setIdentity(ctx, resp.Identity, &desired{namespace: namespace, name: name}, &resp.Diagnostics)
	}
}

func (k *kind) idForm() string {
	if k.Namespaced {
		return "NAMESPACE/NAME, such as shop/web"
	}
	return "its NAME"
}

func (k *kind) parseID(id string) (namespace, name string, ok bool) {
	if !k.Namespaced {
		return "", id, objectName.MatchString(id)
	}
	namespace, name, _ = strings.Cut(id, "/")
	return namespace, name, namespaceName.MatchString(namespace) && objectName.MatchString(name)
}

package connection

import (
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// DefaultFieldManager is the field manager of server-side applies, unless the configuration sets another.
const DefaultFieldManager = "breakwater-terraform"

// Schema returns the schema of the configuration.
func Schema() schema.Schema {
	all := map[string]schema.Attribute{
		"insecure": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Do not verify the API server. An attacker on the network can then read the credentials and change requests. Default: `false`. " +
				"Variable: `KUBE_INSECURE`.",
		},
		"config_paths": schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Paths of kubeconfigs, merged as kubectl does. Missing files are ignored, but at least one must exist. " +
				"Variable: `KUBE_CONFIG_PATHS`, or `KUBECONFIG`, each a list in the syntax of `PATH`.",
		},
		"require_cluster": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Whether a plan fails if the cluster cannot be read. Default: `true` for resources that are in the state, because the plan " +
				"compares them with the cluster; `false` for new ones, because the same apply may create the cluster. With `false`, a plan without a cluster warns that " +
				"it compared nothing. An answer that denies access, or that is not of a Kubernetes API server, is an error in any case. " +
				"Data sources, imports and applies always need the cluster. Variable: `KUBE_REQUIRE_CLUSTER`.",
		},
		"cluster_uid": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "UID of the namespace `kube-system` of the cluster (`core.uid` of `breakwater_topology`). Resources then refuse any other cluster. " +
				"It also accepts this cluster for resources that the state has in another one: without it, a plan that meets another cluster than before is an error. " +
				"Variable: `BREAKWATER_CLUSTER_UID`.",
		},
		"in_cluster": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Use the ServiceAccount of the pod in which Terraform runs. This is also the default if nothing else is configured, " +
				"unless this is `false`.",
		},
	}
	for _, a := range (&Model{}).stringAttributes() {
		text := a.text
		if a.variable != "" {
			text += " Variable: `" + a.variable + "`."
		}
		all[a.attribute] = schema.StringAttribute{Optional: true, Sensitive: a.isSecret, MarkdownDescription: text}
	}
	return schema.Schema{
		MarkdownDescription: "Configures access to one cluster, usually a core cluster; use an alias of the provider for another. A kubeconfig, `host` with " +
			"credentials, or the ServiceAccount of a pod identify the cluster. Other attributes override the kubeconfig.\n\n" +
			"Environment variables are defaults for attributes that are not set. None of them overrides what the attributes select: with " +
			"`kubeconfig`, `config_path`, `config_paths` or `config_context` the variables of the server and of the credentials are ignored, and with `host` " +
			"those that name a kubeconfig. " +
			"`KUBECONFIG` has the lowest priority, and `~/.kube/config` is read only if one of these names it.\n\n" +
			"The provider writes no secret into a state, a plan or a log. Terraform itself stores literal values of the configuration in a plan: " +
			"pass secrets as ephemeral variables or environment variables.",
		Attributes: all,
		Blocks:     map[string]schema.Block{"exec": execSchema()},
	}
}

func execSchema() schema.Block {
	return schema.SingleNestedBlock{
		MarkdownDescription: "A program that prints credentials as an ExecCredential. It has no terminal: " +
			"log in before you run Terraform if it prompts for a password.",
		// Terraform enforces required attributes of a block even if the block is missing, so all are optional here. validateExec
		// checks the required ones.
		Attributes: map[string]schema.Attribute{
			"api_version": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Version of the ExecCredential, `client.authentication.k8s.io/v1` or `client.authentication.k8s.io/v1beta1`. Required.",
			},
			"command": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "The program: a path, or a name in `PATH`. Required.",
			},
			"args": schema.ListAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Its arguments. Pass secrets in `env`: other users of the machine can see arguments.",
			},
			"env": schema.MapAttribute{
				Optional: true, Sensitive: true, ElementType: types.StringType,
				MarkdownDescription: "Environment variables for it, in addition to those of Terraform.",
			},
		},
	}
}

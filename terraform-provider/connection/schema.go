package connection

import (
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Schema returns the schema of the configuration.
func Schema() schema.Schema {
	all := map[string]schema.Attribute{
		"proxy_url": schema.StringAttribute{
			Optional: true, Sensitive: true,
			MarkdownDescription: "URL of a proxy on the way to the cluster, with `http`, `https` or `socks5`. Default: that of the kubeconfig, or of `HTTPS_PROXY`. " +
				"Variable: `KUBE_PROXY_URL`.",
		},
		"timeout": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "How long one request may take, as `30s`; `0s` is without bound. What fails for it is tried again for as long as the `timeouts` of a " +
				"resource say. Default: `1m`.",
		},
		"in_cluster": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Take the ServiceAccount of the pod in which Terraform runs. That is also the last resort where nothing else is configured, " +
				"unless this is `false`.",
		},
	}
	for _, some := range []map[string]schema.Attribute{serverSchema(), loginSchema(), kubeconfigSchema()} {
		for name, attribute := range some {
			all[name] = attribute
		}
	}
	return schema.Schema{
		MarkdownDescription: "Leads to one cluster, usually a core cluster; an alias of the provider leads to another. A kubeconfig, `host` with a way to " +
			"log in, or the ServiceAccount of a pod say which. What else is set wins over what a kubeconfig says.\n\n" +
			"Environment variables stand in for attributes that are not set. None of them leads away from what the attributes choose: beside " +
			"`kubeconfig`, `config_path`, `config_paths` or a `config_context` those of the server and of the credentials are not read, and beside `host` " +
			"none that names a kubeconfig. " +
			"`KUBECONFIG` comes last, and `~/.kube/config` is only read where one of these names it.\n\n" +
			"The provider writes no secret into a state, a plan or a log. Terraform itself keeps with a plan what the configuration says in so many words: " +
			"give secrets by ephemeral variables, or by environment variables.",
		Attributes: all,
		Blocks:     map[string]schema.Block{"exec": execSchema()},
	}
}

func serverSchema() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"host": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "URL of the apiserver, as `https://core.example:6443`. Variable: `KUBE_HOST`.",
		},
		"cluster_ca_certificate": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "PEM certificates that vouch for the apiserver. Default: those of the kubeconfig, or of the system. " +
				"Variable: `KUBE_CLUSTER_CA_CERT_DATA`.",
		},
		"insecure": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Trust whoever answers. Whoever is on the way can then read the credentials and change what is applied. Default: `false`. " +
				"Variable: `KUBE_INSECURE`.",
		},
		"tls_server_name": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Name that the apiserver's certificate must be for. Default: that in its URL. Variable: `KUBE_TLS_SERVER_NAME`.",
		},
	}
}

func loginSchema() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"token": schema.StringAttribute{
			Optional: true, Sensitive: true,
			MarkdownDescription: "Bearer token, as of a ServiceAccount. Variable: `KUBE_TOKEN`.",
		},
		"client_certificate": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "PEM certificate to log in by, with `client_key`. Variable: `KUBE_CLIENT_CERT_DATA`.",
		},
		"client_key": schema.StringAttribute{
			Optional: true, Sensitive: true,
			MarkdownDescription: "PEM private key of `client_certificate`. Variable: `KUBE_CLIENT_KEY_DATA`.",
		},
		"username": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Name for basic authentication, which a proxy in front of an apiserver may ask for. Variable: `KUBE_USER`.",
		},
		"password": schema.StringAttribute{
			Optional: true, Sensitive: true,
			MarkdownDescription: "Password for basic authentication. Variable: `KUBE_PASSWORD`.",
		},
	}
}

func kubeconfigSchema() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"config_path": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Path of a kubeconfig; `~` is the home. Variable: `KUBE_CONFIG_PATH`.",
		},
		"config_paths": schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Paths of kubeconfigs, merged as kubectl does; those that are not there are passed over, but not all of them. " +
				"Variable: `KUBE_CONFIG_PATHS`, or `KUBECONFIG`, each a list as `PATH` is one.",
		},
		"kubeconfig": schema.StringAttribute{
			Optional: true, Sensitive: true,
			MarkdownDescription: "Text of a kubeconfig, as another resource gives it.",
		},
		"config_context": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Context of the kubeconfig. Default: its current context. Variable: `KUBE_CTX`.",
		},
		"config_context_cluster": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Cluster of the kubeconfig, in place of the context's. Variable: `KUBE_CTX_CLUSTER`.",
		},
		"config_context_auth_info": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "User of the kubeconfig, in place of the context's. Variable: `KUBE_CTX_AUTH_INFO`.",
		},
	}
}

func execSchema() schema.Block {
	return schema.SingleNestedBlock{
		MarkdownDescription: "A program that prints credentials, as an ExecCredential. It is never given a terminal: " +
			"what asks for a password must have done so before.",
		// Terraform enforces required attributes of a block even if the block is missing, so all are optional here. wrongExec
		// checks the required ones.
		Attributes: map[string]schema.Attribute{
			"api_version": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Version of the ExecCredential, `client.authentication.k8s.io/v1` or `client.authentication.k8s.io/v1beta1`. Required.",
			},
			"command": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "The program: a path, or a name to be found in `PATH`. Required.",
			},
			"args": schema.ListAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Its arguments. Secrets belong into `env`: others on the machine can see arguments.",
			},
			"env": schema.MapAttribute{
				Optional: true, Sensitive: true, ElementType: types.StringType,
				MarkdownDescription: "Environment variables for it, besides those of Terraform.",
			},
		},
	}
}

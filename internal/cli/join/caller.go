package join

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// CallerValues returns values of the chart breakwater for the worker. They contain the caller token with which the worker's API server
// authenticates to the webhook in the core. The token is derived from the current key in a Secret of the core. The result is
// confidential.
func (o *Options) CallerValues(ctx context.Context, secret string) ([]byte, error) {
	core, err := connect(ctx, &o.Core, "the core", "core")
	if err != nil {
		return nil, err
	}
	keys := &corev1.Secret{}
	if err := core.client.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: secret}, keys); err != nil {
		return nil, fmt.Errorf("read the caller keys in the core: %w: set webhook.callerTokens.mode of its chart to Permissive, or set the name of the Secret "+
			"with --caller-secret", err)
	}
	key := keys.Data["current"]
	if len(key) == 0 {
		return nil, fmt.Errorf("the Secret %s/%s in the core has no caller key yet: check that the Deployment of the component callers runs", o.Namespace, secret)
	}
	scope := webhookconfig.CallerScope(webhookconfig.RemovalPath(o.Cell))
	given := map[string]string{scope: webhookconfig.CallerToken(key, scope)}
	return yaml.Marshal(map[string]any{"webhook": map[string]any{"callerTokens": map[string]any{"given": given}}})
}

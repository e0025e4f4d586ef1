package doctor

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/plugin"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
)

// readPermissions returns the wanted permissions of the user. If the user may review others, it also returns those of the components' accounts.
func readPermissions(ctx context.Context, config *rest.Config, inCore bool, wanted []findings.Permission) ([]findings.Permission, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(wanted, componentPermissions(ctx, client, inCore))
	errs := make([]error, len(all))
	plugin.ForEachConcurrently(all, func(i int, _ findings.Permission) {
		all[i].Allowed, errs[i] = plugin.IsAllowed(ctx, client, &all[i])
	})
	return all, plugin.WithRemedy(config, errors.Join(errs...))
}

// componentPermissions returns the permissions that accounts of components need. It returns none if the user may not list the accounts or review
// their permissions.
func componentPermissions(ctx context.Context, client kubernetes.Interface, inCore bool) (all []findings.Permission) {
	accounts, err := client.CoreV1().ServiceAccounts(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: findings.LabelPartOf + "=" + findings.PartOfBreakwater})
	review := &findings.Permission{Verb: "create", Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}
	if allowed, reviewErr := plugin.IsAllowed(ctx, client, review); err != nil || reviewErr != nil || !allowed {
		return nil
	}
	for i := range accounts.Items {
		account := &accounts.Items[i]
		needed := findings.ComponentPermissions(account.Labels[findings.LabelComponent], inCore)
		for j := range needed {
			needed[j].Account = "system:serviceaccount:" + account.Namespace + ":" + account.Name
		}
		all = slices.Concat(all, needed)
	}
	return all
}

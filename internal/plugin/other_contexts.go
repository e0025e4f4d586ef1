package plugin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
)

// otherContext is a context of the kubeconfig that is not the current one.
type otherContext struct {
	name, server, user string
	// runsProgram reports whether the user's credentials come from a program, which may open a browser or ask for a password.
	runsProgram bool
}

// otherContexts returns the other contexts of the kubeconfig, by name.
func (c *ClusterFinder) otherContexts() (all []otherContext, err error) {
	file, err := c.current.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, err
	}
	current := cmp.Or(*c.current.Context, file.CurrentContext)
	for _, name := range slices.Sorted(maps.Keys(file.Contexts)) {
		cluster, user := file.Clusters[file.Contexts[name].Cluster], file.AuthInfos[file.Contexts[name].AuthInfo]
		if name == current || cluster == nil {
			continue
		}
		all = append(all, otherContext{
			name: name, server: strings.TrimSuffix(cluster.Server, "/"), user: file.Contexts[name].AuthInfo,
			runsProgram: user != nil && (user.Exec != nil || user.AuthProvider != nil),
		})
	}
	return all, nil
}

// maxProbes is the maximum number of contexts that a search sends requests to.
const maxProbes = 20

// probe returns the contexts that is accepts, each cluster and user once. It runs no programs for credentials, except for the context named hint, and
// returns the skipped contexts. It sends requests to all contexts concurrently, for at most half of the limit of the command.
func (c *ClusterFinder) probe(
	ctx context.Context, others []otherContext, hint string, is func(context.Context, *rest.Config) bool,
) (matching []otherContext, skipped []string) {
	var probed []otherContext
	for _, other := range others {
		same := slices.ContainsFunc(probed, func(p otherContext) bool { return p.server == other.server && p.user == other.user })
		switch {
		case same && other.name != hint:
		case other.runsProgram && other.name != hint || len(probed) == maxProbes:
			skipped = append(skipped, other.name)
		default:
			probed = append(probed, other)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.Limit()/2) // the rest of the limit is for the command itself
	defer cancel()
	accepted := make([]bool, len(probed))
	ForEachConcurrently(probed, func(i int, one otherContext) {
		config, err := c.configFor("", one.name)
		done := make(chan bool, 1)
		go func() { done <- err == nil && is(ctx, config) }() // discovery of the client does not respect ctx
		select {
		case accepted[i] = <-done:
		case <-ctx.Done():
		}
	})
	for i := range probed {
		if accepted[i] {
			matching = append(matching, probed[i])
		}
	}
	return matching, skipped
}

// chosenContext returns the context named hint, or the first if all lead to one cluster as one user. Otherwise the user has to choose.
func chosenContext(matching []otherContext, hint string) (string, error) {
	first, names := matching[0], []string(nil)
	for _, one := range matching {
		names = append(names, one.name)
	}
	if slices.ContainsFunc(matching, func(o otherContext) bool { return o.name == hint }) {
		return hint, nil
	}
	if slices.ContainsFunc(matching, func(o otherContext) bool { return o.server != first.server || o.user != first.user }) {
		return "", fmt.Errorf("choose one with --core-context: %s", strings.Join(names, ", "))
	}
	return first.name, nil
}

func skippedText(skipped []string) string {
	if len(skipped) == 0 {
		return ""
	}
	return ". Not searched, because their credentials come from a program or there are too many: " + strings.Join(skipped, ", ")
}

package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/check"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
)

const (
	// minKubernetes is the kubeVersion of the charts.
	minKubernetes = "1.32.0"
	// maxClockDifference is the difference between the clocks of this machine and the API server from which certificates may be invalid.
	maxClockDifference = 5 * time.Second
)

type checkFlags struct {
	*plugin.Plugin
	pre bool
}

// CheckCommand returns the command check.
func CheckCommand(p *plugin.Plugin) *cobra.Command {
	f := &checkFlags{Plugin: p}
	command := &cobra.Command{
		Use:   "check --pre",
		Short: "Check whether Breakwater can be installed into a cluster",
		Long: `Checks the cluster of the current context before you install the charts: whether its API server answers, its version, its clock, whether cert-manager
is installed, and your permissions to create what the charts create. The command writes nothing. The exit code is 1 if a check fails.

After an installation, use kubectl breakwater doctor. Only a check in the cluster can find out whether the API server reaches the webhook: helm test does.`,
		Example: `  kubectl breakwater check --pre --context worker-1`,
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	command.Flags().BoolVar(&f.pre, "pre", false, "check before an installation (required)")
	return command
}

func (f *checkFlags) run(ctx context.Context) error {
	if !f.pre {
		return errors.New("set --pre to check before an installation; after it, use kubectl breakwater doctor")
	}
	config, err := f.Clusters.CurrentConfig()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.Clusters.Limit())
	defer cancel()
	t, failed := plugin.NewTable("WHAT", "STATE", "FOUND"), 0
	for _, one := range preChecks(ctx, config) {
		state, as := "ok", plugin.Good
		switch {
		case one.Problem != "" && one.optional:
			state, as = "missing", plugin.Warn
		case one.Problem != "":
			state, as = "FAILED", plugin.Bad
			failed++
		}
		t.Add(one.What, as.Of(state), one.Problem)
	}
	if _, err := fmt.Fprint(f.Out, t.Text()); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("failed checks of %s: %d", f.Clusters.CurrentContext(), failed)
	}
	return nil
}

// preCheck is the finding of one check. The problem of an optional check has an alternative.
type preCheck struct {
	check.Finding
	optional bool
}

// preChecks runs all checks concurrently. If the API server does not answer, it returns only that.
func preChecks(ctx context.Context, config *rest.Config) []preCheck {
	all := []preCheck{{Finding: check.Finding{What: "API server"}}, {Finding: check.Finding{What: "clock"}}}
	clientset, err := kubernetes.NewForConfig(config)
	var clock findings.Clock
	if err == nil {
		clock, err = measureClock(ctx, config)
	}
	if err != nil {
		all[0].Problem = plugin.WithRemedy(config, err).Error()
		return all[:1]
	}
	if ahead := clock.Ahead.Abs() - clock.Uncertainty; ahead > maxClockDifference {
		all[1].Problem = fmt.Sprintf("the clocks of this machine and of the API server differ by %s: synchronize them", clock.Ahead.Abs().Round(time.Second))
	}
	var version, certManager, permissions string
	plugin.RunConcurrently(
		func() { version = versionProblem(clientset) },
		func() { certManager = certManagerProblem(clientset) },
		func() { permissions = installProblem(ctx, clientset) },
	)
	return append(all,
		preCheck{check.Finding{What: "version", Problem: version}, false},
		preCheck{check.Finding{What: "cert-manager", Problem: certManager}, true},
		preCheck{check.Finding{What: "permissions", Problem: permissions}, false})
}

func versionProblem(clientset kubernetes.Interface) string {
	found, err := clientset.Discovery().ServerVersion()
	if err != nil {
		return err.Error()
	}
	parsed, err := version.ParseGeneric(found.GitVersion)
	if err != nil {
		return err.Error()
	}
	if parsed.LessThan(version.MustParseGeneric(minKubernetes)) {
		return fmt.Sprintf("Kubernetes %s: the charts need at least %s", found.GitVersion, minKubernetes)
	}
	return ""
}

func certManagerProblem(clientset kubernetes.Interface) string {
	_, err := clientset.Discovery().ServerResourcesForGroupVersion("cert-manager.io/v1")
	switch {
	case apierrors.IsNotFound(err):
		return "it is not installed: the charts make their own certificates (tls.mode=self-signed, the default)"
	case err != nil:
		return err.Error()
	}
	return ""
}

// installProblem names the permissions that an installation of the charts needs and the user does not have.
func installProblem(ctx context.Context, clientset kubernetes.Interface) string {
	wanted := check.InstalledResources()
	missing, errs := make([]string, len(wanted)), make([]error, len(wanted))
	plugin.ForEachConcurrently(wanted, func(i int, one schema.GroupResource) {
		allowed, err := plugin.IsAllowed(ctx, clientset, &findings.Permission{Verb: "create", Group: one.Group, Resource: one.Resource})
		if errs[i] = err; err == nil && !allowed {
			missing[i] = one.Resource
		}
	})
	if err := errors.Join(errs...); err != nil {
		return err.Error()
	}
	if names := strings.Fields(strings.Join(missing, " ")); len(names) > 0 {
		return "you may not create " + strings.Join(names, ", ") + ": request this permission, or use --as"
	}
	return ""
}

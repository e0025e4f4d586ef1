// Package node contains the commands about node guards.
package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

// Command returns the command node.
func Command(p *plugin.Plugin) *cobra.Command {
	command := &cobra.Command{
		Use:   "node",
		Short: "Show the node guards of the current cluster, and release pods that they hold",
		Long: `Shows the node guards of the cluster of the current context, and releases pods that they hold. A node guard keeps the containers of pods that the API
server lost; see docs/concepts/node-guard.md.`,
	}
	command.AddCommand(nodeStatusCommand(p), nodeReleaseCommand(p))
	return command
}

// guardedNode is a node with the report of its guard.
type guardedNode struct {
	Node string `json:"node"`
	podhold.Status
}

// guardedNodes is the JSON form of nodes.
type guardedNodes struct {
	Nodes []guardedNode `json:"nodes"`
}

type nodeStatusFlags struct {
	*plugin.Plugin
	plugin.Output
}

func nodeStatusCommand(p *plugin.Plugin) *cobra.Command {
	f := &nodeStatusFlags{Plugin: p}
	command := &cobra.Command{
		Use:   "status [NODE...]",
		Short: "Show what the node guards report: pods that the API server lost",
		Long: `Shows what node guards report in the annotation ` + podhold.AnnotationStatus + ` of their Nodes, which can be 10 seconds old. STATE is:

  ok             the API server has all pods of the node
  holds          the guard holds pods: their containers run, but the API server does not have them; listed below the table, with the reason
  otherCluster   the guard refuses connections to the API server, because it belongs to another cluster

REGISTERED is the number of pods that the guard has registered again and that still run.`,
		RunE: func(command *cobra.Command, names []string) error { return f.run(command.Context(), names) },
	}
	f.Output.Bind(command)
	return command
}

func (f *nodeStatusFlags) run(ctx context.Context, names []string) error {
	names, err := cli.NodeResource.ParseAll(names)
	if err := errors.Join(err, f.Check()); err != nil {
		return err
	}
	config, err := f.Clusters.CurrentConfig()
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return plugin.WithRemedy(config, err)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := c.List(ctx, list); err != nil {
		return plugin.WithRemedy(config, fmt.Errorf("list nodes: %w", err))
	}
	var all []guardedNode
	for i := range list.Items {
		node := &list.Items[i]
		text, guarded := node.Annotations[podhold.AnnotationStatus]
		if selected := len(names) == 0 || slices.Contains(names, node.Name); !selected || !guarded {
			continue
		}
		one := guardedNode{Node: node.Name}
		if err := json.Unmarshal([]byte(text), &one.Status); err != nil {
			f.Note("node %s: the annotation %s is invalid: %v", node.Name, podhold.AnnotationStatus, err)
			continue
		}
		all = append(all, one)
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(n guardedNode) bool { return n.Node == name }) {
			return fmt.Errorf("no node guard reports on a Node %s: kubectl breakwater node status lists all that do", name)
		}
	}
	if len(all) == 0 && f.IsTable() {
		_, err := fmt.Fprintln(f.ErrOut, "No node guard reports in this cluster; see docs/how-to/node-guard.md to install it.")
		return err
	}
	return plugin.Write(&f.Output, f.Out, guardedNodes{all}, func(l guardedNodes) string { return f.table(l.Nodes) })
}

func (f *nodeStatusFlags) table(all []guardedNode) string {
	nodes, pods := plugin.NewTable("NODE", "STATE", "HELD", "REGISTERED", "VERSION"), plugin.NewTable("NODE", "POD", "HELD FOR", "NOT REGISTERED BECAUSE")
	nodes.AlignRight("HELD", "REGISTERED")
	problems := ""
	for i := range all {
		n := &all[i]
		state := plugin.Good.Of("ok")
		switch {
		case n.OtherCluster != "":
			state = plugin.Bad.Of("otherCluster")
			problems += "\n" + n.Node + ": " + n.OtherCluster + "\n"
		case n.HeldCount > 0:
			state = plugin.Warn.Of("holds")
		}
		nodes.Add(n.Node, state, strconv.Itoa(n.HeldCount), strconv.Itoa(n.Registered), n.Version)
		for _, pod := range n.Held {
			pods.Add(n.Node, pod.Namespace+"/"+pod.Name, plugin.Age(f.Now(), pod.Since.Time), cmp.Or(pod.Reason, "-"))
		}
	}
	text := nodes.Text()
	if len(pods.Rows) > 0 {
		text += "\n" + pods.Text()
	}
	return text + problems
}

func nodeReleaseCommand(p *plugin.Plugin) *cobra.Command {
	return &cobra.Command{
		Use:   "release NODE NAMESPACE/POD",
		Short: "Let a node guard end a pod that it holds: the kubelet stops its containers",
		Long: `Lets the guard of a node end a pod that it holds. The kubelet then stops the containers of the pod, and a new pod of its name can start. The command
adds the UID of the pod to the annotation ` + podhold.AnnotationRelease + ` of the Node, which the guard removes.`,
		Example: `  kubectl breakwater node release worker-7 shop/db-0`,
		Args:    cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, arguments []string) error {
			name, err := cli.NodeResource.Parse(arguments[0])
			if err != nil {
				return err
			}
			return releaseOnNode(command.Context(), p, name, arguments[1])
		},
	}
}

func releaseOnNode(ctx context.Context, p *plugin.Plugin, name, pod string) error {
	config, err := p.Clusters.CurrentConfig()
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return plugin.WithRemedy(config, err)
	}
	if err := releaseHeld(ctx, c, name, pod); err != nil {
		return plugin.WithRemedy(config, err)
	}
	_, err = fmt.Fprintf(p.Out, "pod/%s is released: the guard of node %s ends it within 10 seconds\n", pod, name)
	return err
}

// releaseHeld adds a held pod to the annotation of its Node. A Node changes whenever its kubelet or its guard reports, so conflicts are
// retried.
func releaseHeld(ctx context.Context, c client.Client, name, pod string) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { return addRelease(ctx, c, name, pod) })
}

// addRelease tries releaseHeld once. The resource version that it writes keeps what another user releases at the same time.
func addRelease(ctx context.Context, c client.Client, name, pod string) error {
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return fmt.Errorf("read Node %s: %w", name, err)
	}
	var status podhold.Status
	if err := json.Unmarshal([]byte(cmp.Or(node.Annotations[podhold.AnnotationStatus], "{}")), &status); err != nil {
		return fmt.Errorf("node %s: the annotation %s is invalid: %w", name, podhold.AnnotationStatus, err)
	}
	at := slices.IndexFunc(status.Held, func(h podhold.HeldPod) bool { return h.Namespace+"/"+h.Name == pod })
	if at < 0 {
		return fmt.Errorf("the guard of node %s holds no pod %s%s", name, pod, heldHint(status))
	}
	before := node.DeepCopy()
	releases := podhold.WithRelease(node.Annotations[podhold.AnnotationRelease], status.Held[at].UID)
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, podhold.AnnotationRelease, releases)
	if err := c.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("annotate Node %s: %w", name, err)
	}
	return nil
}

func heldHint(status podhold.Status) string {
	if len(status.Held) == 0 {
		return ""
	}
	var names []string
	for _, h := range status.Held {
		names = append(names, h.Namespace+"/"+h.Name)
	}
	return "; it holds " + strings.Join(names, ", ")
}

package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/kind"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

const (
	shop, system    = "shop", "breakwater-system"
	answerImage     = "breakwater.test/answer:1"
	guardImage      = "breakwater.test/breakwater"
	guardTag        = "test"
	guardedLabel    = "guarded"
	replicas, dbs   = 6, 3
	deploymentLabel = "web"
	setLabel        = "db"
	eventually      = 3 * time.Minute
)

// fixture is a cluster of three nodes with a Deployment and a StatefulSet behind a Service.
type fixture struct {
	*testing.T
	cluster *kind.Cluster
	client  *kubernetes.Clientset
	control string
	workers []string
	// rebooted is the node that the current disaster has rebooted; empty for none.
	rebooted string
	// untimed is why the times of the current disaster have no goals; empty if they have.
	untimed string
	// hasGuards reports whether the guards are installed.
	hasGuards bool
	snapshot  string
	outcomes  []namedOutcome
}

func newFixture(t *testing.T, options kind.Options) *fixture {
	t.Helper()
	f := &fixture{T: t}
	folder := t.TempDir()
	topology, err := federation.Embedded("single")
	f.must(err)
	options.Log, options.Nodes = testr.New(t), 3
	images := []string{f.buildImage(folder, "answer", "./e2e/node/answer", answerImage), f.buildImage(folder, "breakwater-node", "./cmd/breakwater-node", guardImage+":"+guardTag)}
	started := kind.StartForTest(t, topology, options)
	for _, image := range images {
		f.must(started.LoadImage(t.Context(), image))
	}
	f.cluster = started.Clusters()[0].(*kind.Cluster)
	f.client = kubernetes.NewForConfigOrDie(f.cluster.RESTConfig())
	for _, node := range f.cluster.Nodes() {
		if strings.HasSuffix(node, "-control-plane") {
			f.control = node
		} else {
			f.workers = append(f.workers, node)
		}
	}
	f.onWorkers(f.connect())
	f.publish()
	f.applyChart(folder)
	f.deploy()
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// build builds a program of this repository for the nodes.
func (f *fixture) build(pkg, to string) {
	f.Helper()
	command := exec.CommandContext(f.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", to, pkg)
	command.Dir, command.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		f.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
}

// buildImage builds an image of a program, and returns its archive.
func (f *fixture) buildImage(folder, program, pkg, image string) string {
	f.Helper()
	layer, archive := filepath.Join(folder, program+"-layer.tar"), filepath.Join(folder, program+".tar")
	f.build(pkg, filepath.Join(folder, program))
	if out, err := exec.CommandContext(f.Context(), "tar", "-cf", layer, "-C", folder, program).CombinedOutput(); err != nil {
		f.Fatalf("tar: %v\n%s", err, out)
	}
	content, err := tarball.LayerFromFile(layer)
	f.must(err)
	built, err := mutate.AppendLayers(empty.Image, content)
	f.must(err)
	config, err := built.ConfigFile()
	f.must(err)
	config.OS, config.Architecture, config.Config.Entrypoint = "linux", runtime.GOARCH, []string{"/" + program}
	built, err = mutate.ConfigFile(built, config)
	f.must(err)
	tag, err := name.NewTag(image)
	f.must(err)
	f.must(tarball.WriteToFile(archive, tag, built))
	return archive
}

// on runs a shell script on a node.
func (f *fixture) on(node, script string) string {
	f.Helper()
	out, err := f.tryOn(f.Context(), node, script)
	if err != nil {
		f.Fatalf("%s: %s: %v\n%s", node, script, err, out)
	}
	return out
}

func (f *fixture) tryOn(ctx context.Context, node, script string) (string, error) {
	var out bytes.Buffer
	command := exec.CommandContext(ctx, "docker", "exec", node, "sh", "-c", script)
	command.Stdout, command.Stderr = &out, os.Stderr
	err := command.Run()
	return strings.TrimSpace(out.String()), err
}

func (f *fixture) onWorkers(script string) {
	f.Helper()
	for _, node := range f.workers {
		f.on(node, script)
	}
}

func (f *fixture) docker(arguments ...string) string {
	f.Helper()
	out, err := exec.CommandContext(f.Context(), "docker", arguments...).CombinedOutput()
	if err != nil {
		f.Fatalf("docker %v: %v\n%s", arguments, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (f *fixture) address(node string) string {
	f.Helper()
	return f.docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", node)
}

// connect returns the script that sets the route to the pods of other nodes, for networks that have none.
func (f *fixture) connect() string {
	f.Helper()
	return "ip route replace 10.244.0.0/16 via " + f.address(f.control)
}

// applyChart applies what the chart has for node guards. Its DaemonSet selects nodes with a label.
func (f *fixture) applyChart(folder string) {
	f.Helper()
	helm, err := release.Helm(f.Context(), folder, "template", "breakwater", filepath.Join("..", "..", "charts", "breakwater"), "--namespace="+system,
		"--show-only=templates/node.yaml", "--set=role=worker,cells[0].name=worker,cores[0].name=core,node.enabled=true,image.pullPolicy=Never,image.repository="+guardImage+",image.tag="+guardTag+
			",node.nodeSelector."+guardedLabel+"=yes")
	f.must(err)
	var problems bytes.Buffer
	helm.Stderr = &problems
	rendered, err := helm.Output()
	if err != nil {
		f.Fatalf("helm: %v\n%s", err, problems.String())
	}
	file := filepath.Join(folder, "node.yaml")
	f.must(os.WriteFile(file, rendered, 0o600))
	f.docker("cp", file, f.control+":/root/node.yaml")
	f.kubectl("apply -f /root/node.yaml")
}

// kubectl runs kubectl on the control plane.
func (f *fixture) kubectl(arguments string) string {
	f.Helper()
	return f.on(f.control, "kubectl --kubeconfig /etc/kubernetes/admin.conf "+arguments)
}

// publish publishes which pods are protected, as an aggregator does.
func (f *fixture) publish() {
	f.Helper()
	ctx := f.Context()
	for _, namespace := range []string{shop, system} {
		_, err := f.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		f.must(err)
	}
	var protected []podhold.Protected
	for _, app := range []string{deploymentLabel, setLabel} {
		protected = append(protected, podhold.Protected{Namespace: shop, Name: app, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}})
	}
	raw, err := json.Marshal(protected)
	f.must(err)
	_, err = f.client.CoreV1().ConfigMaps(system).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "protected", Labels: map[string]string{podhold.LabelProtected: "protected"}}, Data: map[string]string{podhold.ProtectedKey: string(raw)},
	}, metav1.CreateOptions{})
	f.must(err)
}

// deploy creates the workloads while no controller runs, takes a backup of etcd, which therefore has none of their pods, and then lets the
// controllers create them.
func (f *fixture) deploy() {
	f.Helper()
	f.on(f.control, "mv /etc/kubernetes/manifests/kube-controller-manager.yaml /root/")
	f.eventually("the controllers are stopped", func() string {
		return f.on(f.control, "pgrep -x kube-controller || true")
	})
	ctx := f.Context()
	template := func(app string) corev1.PodTemplateSpec {
		grace := int64(2)
		return corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
			Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{
				Name: "app", Image: answerImage, ImagePullPolicy: corev1.PullNever, Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}}},
			}}},
		}
	}
	selector := func(app string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
	webs, sets := int32(replicas), int32(dbs)
	_, err := f.client.AppsV1().Deployments(shop).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &webs, Selector: selector(deploymentLabel), Template: template(deploymentLabel)},
	}, metav1.CreateOptions{})
	f.must(err)
	_, err = f.client.AppsV1().StatefulSets(shop).Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &sets, ServiceName: "db", PodManagementPolicy: appsv1.ParallelPodManagement, Selector: selector(setLabel), Template: template(setLabel),
		},
	}, metav1.CreateOptions{})
	f.must(err)
	_, err = f.client.CoreV1().Services(shop).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": deploymentLabel},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080), NodePort: nodePort}},
		},
	}, metav1.CreateOptions{})
	f.must(err)
	nodes := strings.Join(f.workers, " ")
	f.kubectl("label node " + nodes + " " + guardedLabel + "=yes") // so that the guards stay installed after a restore
	f.backUp()
	f.kubectl("label node " + nodes + " " + guardedLabel + "-")
	f.on(f.control, "mv /root/kube-controller-manager.yaml /etc/kubernetes/manifests/")
	f.waitUntilComplete()
}

const nodePort = 30080

// problem returns why not all pods are registered, running and ready, and no others exist; "" if they are.
func (f *fixture) problem() string {
	ctx, cancel := context.WithTimeout(f.Context(), 5*time.Second)
	defer cancel()
	list, err := f.client.CoreV1().Pods(shop).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	ready := map[string]int{}
	for _, p := range list.Items {
		isReady := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		if isReady && p.DeletionTimestamp == nil {
			ready[p.Labels["app"]]++
		}
	}
	if ready[deploymentLabel] < replicas || ready[setLabel] < dbs {
		return fmt.Sprintf("%v pods are ready, want %d and %d", ready, replicas, dbs)
	}
	return ""
}

func (f *fixture) waitUntilComplete() {
	f.Helper()
	f.eventually("all pods are ready, and no others exist", func() string {
		if problem := f.problem(); problem != "" {
			return problem
		}
		list, err := f.client.CoreV1().Pods(shop).List(f.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != replicas+dbs {
			return fmt.Sprintf("%d pods exist, want %d: %v", len(list.Items), replicas+dbs, err)
		}
		return ""
	})
}

func (f *fixture) eventually(what string, problem func() string) {
	f.Helper()
	last := ""
	for deadline := time.Now().Add(eventually); time.Now().Before(deadline); {
		if last = problem(); last == "" {
			return
		}
		select {
		case <-f.Context().Done():
			f.Fatal(f.Context().Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
	f.Fatalf("waited %s until %s: %s", eventually, what, last)
}

// installGuards installs the guard on all workers, by the chart's DaemonSet.
func (f *fixture) installGuards() {
	f.Helper()
	f.hasGuards = true
	f.kubectl("label node " + strings.Join(f.workers, " ") + " " + guardedLabel + "=yes")
	f.eventually("the guards are installed", func() string {
		set, err := f.client.AppsV1().DaemonSets(system).Get(f.Context(), "breakwater-node", metav1.GetOptions{})
		if err != nil || int(set.Status.NumberReady) < len(f.workers) {
			return fmt.Sprintf("DaemonSet %+v: %v", set.Status, err)
		}
		return ""
	})
	f.waitForNodes()
	f.waitUntilComplete()
	f.eventually("the guards know all pods", func() string {
		known := 0
		for _, node := range f.workers {
			known += len(strings.Fields(f.on(node, "grep -l "+shop+" /var/lib/breakwater-node/pods/*.pod || true")))
		}
		if known < replicas+dbs {
			return fmt.Sprintf("they know %d of %d", known, replicas+dbs)
		}
		return ""
	})
}

// waitForNodes waits until all nodes are ready.
func (f *fixture) waitForNodes() {
	f.Helper()
	f.eventually("all nodes are ready", func() string {
		list, err := f.client.CoreV1().Nodes().List(f.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, node := range list.Items {
			if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			}) {
				return node.Name + " is not ready"
			}
		}
		return ""
	})
}

package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
)

// pollInterval is the polling interval.
const pollInterval = 100 * time.Millisecond

// Kubelet runs the pods of the release's namespace as processes of this machine. kwok only simulates them. A process gets the
// arguments, Secrets and permissions from the chart, and its pod becomes ready when the process is. In a cluster without nodes,
// Kubelet runs pods that have none.
type Kubelet struct {
	withoutKwok bool
	// config is how processes reach the API server.
	config  *rest.Config
	client  kubernetes.Interface
	secrets corelisters.SecretLister
	program string
	dir     string
	spawner *subprocess.Spawner
	running sync.WaitGroup
	cancel  context.CancelFunc

	mu   sync.Mutex
	pods map[types.UID]*pod
}

// pod is a running pod.
type pod struct {
	component, log string
	// reviews is the address of its webhook, once it is ready; empty if it serves none.
	reviews string
	// metrics is the address of its metrics.
	metrics string
	ready   bool
	stop    context.CancelFunc
}

// StartKubelet starts a Kubelet. program is the path of breakwater. dir is the directory for logs and mounted files.
func StartKubelet(cluster federation.Cluster, program, dir string) (*Kubelet, error) {
	return StartKubeletBehind(cluster, cluster.RESTConfig(), program, dir)
}

// StartKubeletBehind starts a Kubelet whose processes reach the API server by config, for instance through a proxy. The Kubelet itself does not use it.
func StartKubeletBehind(cluster federation.Cluster, config *rest.Config, program, dir string) (*Kubelet, error) {
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	k := &Kubelet{
		withoutKwok: !cluster.HasRole(federation.Worker),
		config:      config, client: client, program: program, dir: dir, spawner: subprocess.NewSpawner(), cancel: end, pods: map[types.UID]*pod{},
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(Namespace))
	k.secrets = factory.Core().V1().Secrets().Lister()
	informer := factory.Core().V1().Pods().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { k.handlePod(ctx, obj) },
		UpdateFunc: func(_, obj any) { k.handlePod(ctx, obj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			k.handleDeletion(obj)
		},
	})
	factory.Start(ctx.Done())
	return k, err
}

// Close ends all processes.
func (k *Kubelet) Close() {
	k.cancel()
	k.running.Wait()
	k.spawner.Close()
}

func (k *Kubelet) handlePod(ctx context.Context, obj any) {
	p, ok := obj.(*corev1.Pod)
	if !ok || p.Spec.NodeName == "" && !k.withoutKwok {
		return
	}
	if p.DeletionTimestamp != nil {
		k.handleDeletion(obj)
		return
	}
	if finished := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed; finished {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pods[p.UID] != nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	one := &pod{component: p.Spec.Containers[0].Name, log: filepath.Join(k.dir, p.Name+".log"), stop: stop}
	k.pods[p.UID] = one
	k.running.Go(func() {
		defer stop()
		if err := k.run(ctx, p, one); err != nil && ctx.Err() == nil {
			_ = os.WriteFile(one.log+".error", []byte(err.Error()), 0o600) // Problems reports it
		}
	})
}

func (k *Kubelet) handleDeletion(obj any) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if one := k.pods[p.UID]; one != nil {
		one.ready = false
		one.stop()
	}
}

// Webhooks returns the addresses of the ready webhooks.
func (k *Kubelet) Webhooks() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for _, p := range k.pods {
		if p.ready && p.reviews != "" {
			all = append(all, p.reviews)
		}
	}
	return all
}

// metrics returns the metrics address of a ready pod of a component; empty if there is none.
func (k *Kubelet) metrics(component string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pods {
		if p.ready && p.component == component {
			return p.metrics
		}
	}
	return ""
}

// run runs a pod until it is deleted, or until the process of a Job has ended.
func (k *Kubelet) run(ctx context.Context, p *corev1.Pod, one *pod) error {
	folder := filepath.Join(k.dir, p.Name)
	kubeconfig, err := WriteKubeconfig(ctx, k.config, p.Namespace, p.Spec.ServiceAccountName, folder)
	if err != nil {
		return err
	}
	volumes := k.secretVolumes(p, folder)
	if err := volumes.mount(ctx); err != nil {
		return err
	}
	k.running.Go(func() { volumes.update(ctx) })
	var claims [3]*port.Claim
	for i := range claims {
		if claims[i], err = port.NewClaim(); err != nil {
			return err
		}
		defer claims[i].Release()
	}
	health, metrics, reviews := claims[0], claims[1], ""
	arguments := processArguments(p, kubeconfig, folder)
	job := p.Spec.RestartPolicy != corev1.RestartPolicyAlways
	if !job {
		arguments = append(arguments, "--health-listen="+health.Address(), "--metrics-listen="+metrics.Address(), "--log-format=text")
		k.mu.Lock()
		one.metrics = metrics.Address()
		k.mu.Unlock()
	}
	if one.component == "webhook" {
		reviews = claims[2].Address()
		arguments = append(arguments, "--listen="+reviews, "--advertise="+reviews)
	}
	command := exec.Command(k.program, arguments...)
	command.Env = []string{"HOME=" + folder, "POD_NAME=" + p.Name}
	process, err := k.spawner.Run(command, one.log, nil)
	if err != nil {
		return err
	}
	if job {
		return k.completePod(ctx, p, process)
	}
	go k.probe(ctx, p, one, health.Address(), reviews)
	select {
	case <-process.Ended:
		return fmt.Errorf("the process exited by itself: %s", process.Cmd.ProcessState)
	case <-ctx.Done():
	}
	return process.Terminate(context.WithoutCancel(ctx), time.Duration(*p.Spec.TerminationGracePeriodSeconds)*time.Second)
}

// processArguments converts the arguments of a pod to those of a process: it has a different kubeconfig, other file paths, and no cluster
// DNS to find its peers.
func processArguments(p *corev1.Pod, kubeconfig, folder string) []string {
	var arguments []string
	for _, argument := range p.Spec.Containers[0].Args {
		if strings.HasPrefix(argument, "--peer=") {
			continue
		}
		if strings.HasSuffix(argument, "=in-cluster") {
			argument = strings.TrimSuffix(argument, "in-cluster") + kubeconfig
		}
		argument = strings.ReplaceAll(argument, "=/etc/breakwater/", "="+filepath.Join(folder, "etc/breakwater")+"/")
		arguments = append(arguments, strings.ReplaceAll(argument, "$(POD_NAME)", p.Name))
	}
	return arguments
}

// probe marks the pod ready when its process is.
func (k *Kubelet) probe(ctx context.Context, p *corev1.Pod, one *pod, health, reviews string) {
	for ctx.Err() == nil {
		if subprocess.CheckReady(ctx, health) == nil {
			k.mu.Lock()
			one.ready, one.reviews = true, reviews
			k.mu.Unlock()
			if err := k.markReady(ctx, p); err == nil {
				return
			}
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
		}
	}
}

// markReady tells kwok that the pod is ready, and kwok updates the pod. A cluster without nodes has no kwok, so markReady updates
// the pod itself.
func (k *Kubelet) markReady(ctx context.Context, p *corev1.Pod) error {
	if !k.withoutKwok {
		return k.annotate(ctx, p, federation.ReadyAnnotation, "true")
	}
	now := metav1.Now().UTC().Format(time.RFC3339)
	patch := fmt.Appendf(nil, `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`, now)
	return k.patchStatus(ctx, p, patch)
}

func (k *Kubelet) patchStatus(ctx context.Context, p *corev1.Pod, patch []byte) error {
	_, err := k.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// completePod completes a pod when its process has ended. kwok completes the pods of Jobs.
func (k *Kubelet) completePod(ctx context.Context, p *corev1.Pod, process *subprocess.Process) error {
	<-process.Ended
	var failure error
	if !process.Cmd.ProcessState.Success() {
		failure = fmt.Errorf("the process of the Job ended: %s", process.Cmd.ProcessState)
	}
	if failure == nil && metav1.GetControllerOf(p) != nil && !k.withoutKwok {
		return k.annotate(ctx, p, federation.CompleteAnnotation, "now")
	}
	phase := corev1.PodSucceeded
	if failure != nil {
		phase = corev1.PodFailed
	}
	return errors.Join(failure, k.patchStatus(ctx, p, fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase)))
}

func (k *Kubelet) annotate(ctx context.Context, p *corev1.Pod, key, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	_, err := k.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// Problems returns the log lines in which a component was forbidden something, and the errors that kept pods from running.
func (k *Kubelet) Problems() error {
	logs, err := filepath.Glob(filepath.Join(k.dir, "*.log*"))
	if err != nil {
		return err
	}
	var all []error
	for _, path := range logs {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".error") {
			all = append(all, fmt.Errorf("%s: %s", filepath.Base(path), raw))
		}
		for line := range strings.Lines(string(raw)) {
			if strings.Contains(line, "forbidden") {
				all = append(all, fmt.Errorf("%s: %s", filepath.Base(path), strings.TrimSpace(line)))
			}
		}
	}
	return errors.Join(all...)
}

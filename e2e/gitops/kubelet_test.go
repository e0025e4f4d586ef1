package gitops_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/gitops"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubelet runs a real process for each of Breakwater's Deployments, while the Deployment exists. The process has the arguments of the
// container, the identity of the ServiceAccount, and the mounted certificate. kwok simulates the pods.
type kubelet struct {
	*Fixture
	tls     string
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu         sync.Mutex
	problem    error
	processes  map[string]*gitops.Process // by Deployment
	waitingFor map[string]error           // why other Deployments do not start
}

func (s *Fixture) startKubelet(ctx context.Context) error {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	k := &kubelet{Fixture: s, tls: s.Path("tls"), cancel: end, processes: map[string]*gitops.Process{}}
	s.kubelet = k
	var err error
	if s.webhook, err = s.FreeAddress(); err != nil {
		return err
	}
	if err := os.MkdirAll(k.tls, 0o700); err != nil {
		return err
	}
	k.running.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			k.sync(ctx)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return nil
}

func (k *kubelet) stop() {
	k.cancel()
	k.running.Wait()
}

// sync updates the mounted certificate and the processes to the state in the cluster.
func (k *kubelet) sync(ctx context.Context) {
	var deployments appsv1.DeploymentList
	if err := k.List(ctx, &deployments, client.InNamespace(systemNamespace)); err != nil {
		return // the cluster stops, or the next call succeeds
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waitingFor = map[string]error{}
	mounted := k.writeCertificate(ctx)
	declared := map[string]bool{}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		declared[d.Name] = true
		if p, ok := k.processes[d.Name]; ok {
			select {
			case <-p.Ended:
				k.problem = fmt.Errorf("%s ended unexpectedly; see its log", d.Name)
			default:
			}
			continue
		}
		err := mounted
		if err == nil {
			err = k.startDeployment(ctx, d)
		}
		if err != nil {
			k.waitingFor[d.Name] = err
		}
	}
	for _, name := range slices.Collect(maps.Keys(k.processes)) {
		if !declared[name] {
			k.processes[name].Terminate()
			delete(k.processes, name)
		}
	}
}

// writeCertificate writes the webhook's certificate to the files that its process reads.
func (k *kubelet) writeCertificate(ctx context.Context) error {
	var secret corev1.Secret
	if err := k.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: "breakwater-webhook-tls"}, &secret); err != nil {
		return err
	}
	for _, key := range []string{"tls.crt", "tls.key"} {
		file := filepath.Join(k.tls, key)
		if old, err := os.ReadFile(file); err == nil && string(old) == string(secret.Data[key]) {
			continue
		}
		if err := os.WriteFile(file+".next", secret.Data[key], 0o600); err != nil {
			return err
		}
		if err := os.Rename(file+".next", file); err != nil {
			return err
		}
	}
	return nil
}

// startDeployment starts the container of a Deployment as a process. It replaces fixed paths and addresses of a pod, and starts only one
// replica.
func (k *kubelet) startDeployment(ctx context.Context, d *appsv1.Deployment) error {
	kubeconfig, err := k.Kubeconfig(ctx, systemNamespace, d.Spec.Template.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	health, err := k.FreeAddress()
	if err != nil {
		return err
	}
	places := strings.NewReplacer("in-cluster", kubeconfig, "/etc/breakwater/tls", k.tls, "$(POD_NAME)", d.Name)
	var arguments []string
	for _, argument := range d.Spec.Template.Spec.Containers[0].Args {
		flag, _, _ := strings.Cut(argument, "=")
		switch flag {
		case "--peer", "--advertise", "--health-listen", "--metrics-listen":
		case "--listen":
			arguments = append(arguments, "--listen="+k.webhook)
		default:
			arguments = append(arguments, places.Replace(argument))
		}
	}
	p, err := k.StartProcess(d.Name, k.Path("breakwater"), nil, append(arguments, "--health-listen="+health, "--metrics-listen=0", "--log-format=text")...)
	if err != nil {
		return err
	}
	k.processes[d.Name] = p
	return nil
}

// state describes which processes run and why others do not.
func (k *kubelet) state() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return fmt.Sprintf("running %v, waiting %v, problem %v", slices.Sorted(maps.Keys(k.processes)), k.waitingFor, k.problem)
}

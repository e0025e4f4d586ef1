package hostile_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

const unauthenticated = "unauthenticated caller"

// caller reaches the webhook without a credential. It does not verify certificates, since it has nothing to lose.
type caller struct {
	*e2e.Fixture
	address string
	client  *http.Client
}

func newCaller(l *e2e.Fixture) *caller {
	transport := &http.Transport{TLSClientConfig: insecureTLSConfig(), MaxIdleConnsPerHost: 64}
	l.Cleanup(transport.CloseIdleConnections)
	return &caller{Fixture: l, address: installed[1].Webhooks()[0], client: &http.Client{Transport: transport, Timeout: time.Minute}}
}

func insecureTLSConfig(protocols ...string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: protocols, MinVersion: tls.VersionTLS12} //nolint:gosec // an attacker does not verify
}

// post sends a body to a path of the webhook. The code is 0 if there is no answer.
func (c *caller) post(path string, body io.Reader) (code int, answer string) {
	request, err := http.NewRequestWithContext(c.Context(), http.MethodPost, "https://"+c.address+path, body)
	c.Must(err)
	response, err := c.client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(raw)
}

func (c *caller) reviewPath() string { return "/cells/" + c.Cells[0].Name + "/validate" }

// sendReviews sends the given number of reviews concurrently and counts the codes of their answers. 200 is an admission.
func (c *caller) sendReviews(number int, review func(i int) *admissionv1.AdmissionReview) map[int]int {
	codes := map[int]int{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	turns := make(chan struct{}, 32)
	for i := range number {
		asking.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			raw, err := json.Marshal(review(i))
			c.Must(err)
			code, answer := c.post(c.reviewPath(), bytes.NewReader(raw))
			if code == http.StatusOK {
				code = verdictCode(answer)
			}
			mu.Lock()
			defer mu.Unlock()
			codes[code]++
		})
	}
	asking.Wait()
	return codes
}

// verdictCode returns the code in the answer to a review: 200 for an admission, and 0 if the answer is not a review.
func verdictCode(answer string) int {
	review := &admissionv1.AdmissionReview{}
	switch err := json.Unmarshal([]byte(answer), review); {
	case err != nil || review.Response == nil:
		return 0
	case review.Response.Allowed:
		return http.StatusOK
	default:
		return int(review.Response.Result.Code)
	}
}

func newDeletionReview(pod *corev1.Pod) *admissionv1.AdmissionReview {
	raw, err := json.Marshal(pod)
	if err != nil {
		panic(err) // a pod is always JSON
	}
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "forged", Operation: admissionv1.Delete, Namespace: pod.Namespace, Name: pod.Name,
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, OldObject: runtime.RawExtension{Raw: raw},
		},
	}
}

// forgePod returns a pod that does not exist, made from one that does.
func forgePod(pod *corev1.Pod, i int) *corev1.Pod {
	forged := pod.DeepCopy()
	forged.Name, forged.UID = fmt.Sprint("forged-", i), types.UID(fmt.Sprint("forged-", i))
	return forged
}

func withForceAnnotation(pod *corev1.Pod) *corev1.Pod {
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationForceDelete, "true")
	return pod
}

func TestUnauthenticatedCaller(t *testing.T) {
	suite.Claim(t, "it consumes no budget for pods that do not exist, forces nothing, and ends no webhook", func(l *e2e.Fixture) {
		const pods, floor = 12, 9 // half of the pods are in each cell
		l.CreateProtector(floor)
		l.CreateBarePods(l.Application(pods))
		c := newCaller(l)
		existing := l.ExistingPods(l.Cells[0])
		// reviews returns an attack that sends reviews. Each must be answered with the code, and none may reserve anything.
		reviews := func(attempt string, number, code int, review func(i int) *admissionv1.AdmissionReview) attack {
			return attack{attempt, func() (string, bool) {
				codes, held := c.sendReviews(number, review), countReservations(l.GetProtector())
				return fmt.Sprintf("answers by code %v, %d reservations", codes, held), maps.Equal(codes, map[int]int{code: number}) && held == 0
			}}
		}
		// sends returns an attack that sends any other body.
		sends := func(attempt, path string, body func() io.Reader, want ...int) attack {
			return attack{attempt, func() (string, bool) {
				code, answer := c.post(path, body())
				if code == http.StatusOK {
					code = verdictCode(answer)
				}
				return fmt.Sprintf("code %d", code), slices.Contains(want, code) && countReservations(l.GetProtector()) == 0
			}}
		}
		text := func(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }
		runAttacks(l, unauthenticated, []attack{
			reviews("500 deletions of pods that do not exist", 500, 404, func(i int) *admissionv1.AdmissionReview { return newDeletionReview(forgePod(&existing[0], i)) }),
			reviews("500 break-glass removals of pods that do not exist", 500, 404, func(i int) *admissionv1.AdmissionReview {
				return newDeletionReview(withForceAnnotation(forgePod(&existing[0], i)))
			}),
			reviews("50 deletions of a pod with the UID of another", 50, 404, func(i int) *admissionv1.AdmissionReview {
				pod := forgePod(&existing[0], i)
				pod.Name = existing[0].Name
				return newDeletionReview(pod)
			}),
			reviews("50 deletions of a pod with labels of its choice", 50, 429, func(int) *admissionv1.AdmissionReview {
				pod := existing[0].DeepCopy()
				pod.Labels["tier"] = "forged"
				return newDeletionReview(pod)
			}),
			reviews("50 evictions of pods that do not exist", 50, 404, func(i int) *admissionv1.AdmissionReview {
				review := newDeletionReview(forgePod(&existing[0], i))
				review.Request.Operation, review.Request.SubResource, review.Request.OldObject = admissionv1.Create, "eviction", runtime.RawExtension{}
				return review
			}),
			reviews("a pod with a name of 1 MB", 1, 400, func(int) *admissionv1.AdmissionReview {
				pod := existing[0].DeepCopy()
				pod.Name = strings.Repeat("x", 1<<20)
				return newDeletionReview(pod)
			}),
			sends("a review for a cell that does not exist", "/cells/other/validate", func() io.Reader {
				raw, err := json.Marshal(newDeletionReview(&existing[0]))
				l.Must(err)
				return bytes.NewReader(raw)
			}, 403),
			sends("a review that is not JSON", c.reviewPath(), text("}{"), 400),
			sends("1,000,000 nested objects", c.reviewPath(), text(strings.Repeat(`{"request":`, 1_000_000)), 400, 413),
			sends("a review of 50 MB", c.reviewPath(), text(`{"request":"`+strings.Repeat("x", 50<<20)), 400, 413, 0),
			sends("a reservation in the name of another replica", "/peers/v1/cores/core/protectors/"+l.Namespace+"/web", text("{}"), 403, 404),
			{"10,000 HTTP/2 streams that are reset at once", func() (string, bool) {
				sent, err := c.resetRapidly(10_000)
				after := c.sendReviews(1, func(i int) *admissionv1.AdmissionReview { return newDeletionReview(forgePod(&existing[0], i)) })
				return fmt.Sprintf("%d streams (%v), answers by code afterwards %v", sent, err, after), maps.Equal(after, map[int]int{404: 1})
			}},
			{"50 break-glass removals of a pod that is not annotated", func() (string, bool) {
				codes := c.sendReviews(50, func(int) *admissionv1.AdmissionReview {
					return newDeletionReview(withForceAnnotation(existing[0].DeepCopy()))
				})
				held, left := countReservations(l.GetProtector()), l.CountExistingPods()
				return fmt.Sprintf("answers by code %v, %d reservation of a pod that exists, %d pods live", codes, held, left), held == 1 && left == pods
			}},
		})
		before := l.CountExistingPods()
		l.Must(l.DeletePod(l.Cells[0], existing[0].Name)) // the whole budget is still usable
		l.Must(l.DeletePod(l.Cells[0], existing[1].Name))
		l.Must(l.DeletePod(l.Cells[0], existing[2].Name))
		l.Eventually(func() string {
			if now := l.CountExistingPods(); now != before-3 {
				return fmt.Sprintf("%d pods live, want %d", now, before-3)
			}
			return ""
		})
		l.ExpectDenial(l.DeletePod(l.Cells[0], existing[3].Name))
	})
}

// resetRapidly opens streams and resets them at once, like CVE-2023-44487, until the server closes the connection.
func (c *caller) resetRapidly(streams int) (sent int, err error) {
	conn, err := tls.Dial("tcp", c.address, insecureTLSConfig("h2"))
	c.Must(err)
	defer conn.Close()
	c.Must(conn.SetDeadline(time.Now().Add(20 * time.Second)))
	_, err = conn.Write([]byte(http2.ClientPreface))
	c.Must(err)
	go func() { _, _ = io.Copy(io.Discard, conn) }() // ends with the connection
	framer := http2.NewFramer(conn, nil)
	c.Must(framer.WriteSettings())
	var header bytes.Buffer
	encoder := hpack.NewEncoder(&header)
	for sent < streams {
		header.Reset()
		for _, field := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", c.address}, {":path", c.reviewPath()}} {
			c.Must(encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
		}
		stream := uint32(2*sent + 1) //nolint:gosec // far below the bound
		err = errors.Join(
			framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: header.Bytes(), EndHeaders: true}),
			framer.WriteRSTStream(stream, http2.ErrCodeCancel),
		)
		if err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}

// flood keeps memory, connections and CPUs of the webhook busy until ctx ends. It sends stalled bodies, huge bodies and deep JSON, and
// requests whose answers it does not read.
func (c *caller) flood(ctx context.Context, stalled, huge, deep, slow int) (wait func()) {
	var flooding sync.WaitGroup
	again := func(number int, once func(conn net.Conn)) {
		for range number {
			flooding.Go(func() {
				for ctx.Err() == nil {
					conn, err := (&tls.Dialer{Config: insecureTLSConfig("http/1.1")}).DialContext(ctx, "tcp", c.address)
					if err != nil {
						<-time.After(50 * time.Millisecond)
						continue
					}
					closing := context.AfterFunc(ctx, func() { _ = conn.Close() })
					once(conn)
					closing()
					_ = conn.Close()
				}
			})
		}
	}
	head := func(length int) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", c.reviewPath(), c.address, length)
	}
	write := func(conn net.Conn, parts ...string) {
		for _, part := range parts {
			if _, err := io.WriteString(conn, part); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, conn)
	}
	half, nested := strings.Repeat("x", 100<<10), strings.Repeat(`{"request":`, 500_000)
	again(stalled, func(conn net.Conn) { write(conn, head(1<<20), half) })
	again(huge, func(conn net.Conn) {
		write(conn, append([]string{head(50 << 20)}, slices.Repeat([]string{half}, 50<<20/len(half))...)...)
	})
	again(deep, func(conn net.Conn) { write(conn, head(len(nested)), nested) })
	again(slow, func(conn net.Conn) {
		for ctx.Err() == nil { // requests whose answers it never reads
			if _, err := io.WriteString(conn, head(2)+"{}"); err != nil {
				return
			}
		}
	})
	return flooding.Wait
}

// memoryLimit is the memory limit of the containers of webhooks and aggregators in the chart.
const memoryLimit = 1 << 30

// residentMemory returns the resident memory of a pod of a component, in bytes. It fails the test unless that is less than the limit of its
// container.
func residentMemory(l *e2e.Fixture, in *release.Release, component string) int64 {
	l.Helper()
	token, err := in.MetricsToken(l.Context())
	l.Must(err)
	code, body, err := in.Scrape(l.Context(), component, token)
	l.Must(err)
	_, after, found := strings.Cut(body, "\nprocess_resident_memory_bytes ")
	value, _, _ := strings.Cut(after, "\n")
	bytes, err := strconv.ParseFloat(value, 64)
	if !found || err != nil {
		l.Fatalf("the metrics of the %s do not have process_resident_memory_bytes: code %d, %.200q", component, code, body)
	}
	if bytes >= memoryLimit {
		l.Errorf("the %s uses %.0f MiB, want less than %d MiB", component, bytes/(1<<20), memoryLimit>>20)
	}
	return int64(bytes)
}

func TestStormUnderFlood(t *testing.T) {
	suite.Claim(t, "the floor holds exactly, and the webhook does not restart, while an unauthenticated caller floods it", func(l *e2e.Fixture) {
		c := newCaller(l)
		ctx, end := context.WithCancel(l.Context())
		defer end()
		var wait func()
		var used int64
		e2e.FaultStorm{
			Pods: 60, FloorsByCore: []int{40}, ExhaustsBudget: true,
			BeforeStorm: func(*e2e.Fixture, *storm.Storm) { wait = c.flood(ctx, 500, 8, 4, 8) },
			DuringStorm: func(*e2e.Fixture, *storm.Storm) { used = residentMemory(l, installed[1], "webhook") },
			AfterStorm:  func(*e2e.Fixture, *storm.Storm) { end(); wait() },
		}.Run(l)
		l.Must(installed.Problems()) // no component ended
		fmt.Printf("hostile: %s | 500 stalled bodies, bodies of 50 MB, deep JSON and slow readers in a storm | 0 over-admissions, the webhook used %d MiB\n",
			unauthenticated, used>>20)
	})
}

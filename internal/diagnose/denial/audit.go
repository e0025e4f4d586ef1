package denial

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// auditEvent holds the fields that this package reads of an audit.k8s.io/v1 Event.
type auditEvent struct {
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ImpersonatedUser *struct {
		Username string `json:"username"`
	} `json:"impersonatedUser"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	RequestReceivedTimestamp time.Time         `json:"requestReceivedTimestamp"`
	Annotations              map[string]string `json:"annotations"`
}

// ParseAudit parses a line of an audit log; ok is false if the line does not record a denial. Older webhooks did not record the cell.
func ParseAudit(line []byte) (d Denial, ok bool, err error) {
	var e auditEvent
	if err := json.Unmarshal(line, &e); err != nil {
		return Denial{}, false, err
	}
	verdict := e.annotation(v1alpha1.AuditVerdict)
	if e.Stage != "ResponseComplete" || verdict == "" || e.ObjectRef.Resource != "pods" || strings.Contains(e.RequestURI, "dryRun=") {
		return Denial{}, false, nil
	}
	d = Denial{
		First: e.RequestReceivedTimestamp, Last: e.RequestReceivedTimestamp, Count: 1, Verdict: verdict, Forced: verdict == "Forced",
		Cell: e.annotation(v1alpha1.AuditCell), Namespace: e.ObjectRef.Namespace, User: e.user(), Operation: e.operation(), Message: e.ResponseStatus.Message,
	}
	d.Core, d.Protector = parseProtectors(e.annotation(v1alpha1.AuditProtectors))
	if e.ObjectRef.Name != "" {
		d.Pods = []string{e.ObjectRef.Name}
	}
	denied := e.ResponseStatus.Code >= 400
	switch {
	case d.Forced:
		d.Verdict, d.Reason = e.annotation(v1alpha1.AuditForcedOver), e.annotation(v1alpha1.AuditForcedReason)
		return d, !denied, nil
	case slices.Contains([]string{"Unguarded", "NotAvailable", "Unprotected", "OtherCell", "Reserved", "DryRun"}, verdict):
		// The audit event of a collection deletion keeps the annotations of its first pod. Another admission check, such as a
		// PodDisruptionBudget, can have denied the request.
		if !denied || !strings.Contains(e.ResponseStatus.Message, "Breakwater refuses to") {
			return Denial{}, false, nil
		}
		d.Verdict = ""
	}
	d.Trial = !denied
	d.setMessage(e.ResponseStatus.Message)
	return d, true, nil
}

// setMessage reads the message that the client received and the pod of a collection deletion from the response.
func (d *Denial) setMessage(message string) {
	at := strings.Index(message, "Breakwater refuses to ")
	if at < 0 {
		return
	}
	d.Message = message[at:]
	if parts := deniedPattern.FindStringSubmatch(d.Message); parts != nil && len(d.Pods) == 0 {
		d.Pods = []string{unquote(parts[2])}
	}
}

// annotation returns an annotation of the webhook. The API server prefixes the key with the name of the webhook.
func (e *auditEvent) annotation(key string) string {
	for name, value := range e.Annotations {
		if _, own, _ := strings.Cut(name, "/"); own == key {
			return value
		}
	}
	return ""
}

// user returns the user whose permissions the API server checked.
func (e *auditEvent) user() string {
	if e.ImpersonatedUser != nil {
		return e.ImpersonatedUser.Username
	}
	return e.User.Username
}

func (e *auditEvent) operation() string {
	switch {
	case e.ObjectRef.Subresource == "eviction":
		return string(v1alpha1.OperationEvict)
	case e.ObjectRef.Subresource == "resize":
		return string(v1alpha1.OperationResize)
	case strings.HasPrefix(e.Verb, "delete"):
		return string(v1alpha1.OperationDelete)
	case strings.Contains(e.ResponseStatus.Message, "Breakwater refuses to relabel "):
		return string(v1alpha1.OperationRelabel)
	default:
		return string(v1alpha1.OperationUpdate)
	}
}

// parseProtectors parses core/namespace/name,... into the core of the first entry and the names of all entries.
func parseProtectors(asked string) (core, names string) {
	var all []string
	for one := range strings.SplitSeq(asked, ",") {
		parts := strings.SplitN(one, "/", 3)
		if len(parts) == 3 {
			if core == "" {
				core = parts[0]
			}
			all = append(all, parts[2])
		}
	}
	return core, strings.Join(all, ",")
}

// IsOf reports whether the webhook consulted the named protector, or a share of it, whose name is PROTECTOR.share-HASH.
func (d *Denial) IsOf(protector string) bool {
	return slices.ContainsFunc(strings.Split(d.Protector, ","), func(name string) bool {
		return name == protector || strings.HasPrefix(name, protector+".share-")
	})
}

// AdmittedRemoval identifies the pod of a removal and the user who requested it.
type AdmittedRemoval struct {
	Namespace, Pod, User string
}

// ParseAdmitted parses a line of an audit log; ok is false unless the line records an admitted and reserved removal of one pod.
func ParseAdmitted(line []byte) (a AdmittedRemoval, ok bool, err error) {
	var e auditEvent
	if err := json.Unmarshal(line, &e); err != nil {
		return AdmittedRemoval{}, false, err
	}
	verdict := e.annotation(v1alpha1.AuditVerdict)
	if verdict != "Reserved" && verdict != "Forced" || e.ObjectRef.Resource != "pods" || e.ObjectRef.Name == "" || strings.Contains(e.RequestURI, "dryRun=") {
		return AdmittedRemoval{}, false, nil
	}
	return AdmittedRemoval{e.ObjectRef.Namespace, e.ObjectRef.Name, e.user()}, true, nil
}

package reviews

import (
	"encoding/json"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// MaxBytes limits the body that a client can make a webhook read. API servers accept objects of up to 3 MiB, and a review contains two.
const MaxBytes = 8 << 20

// Decode decodes the body that an API server sends. The objects in it stay JSON.
func Decode(body []byte) (*admissionv1.AdmissionReview, error) {
	review := &admissionv1.AdmissionReview{}
	if err := removal.DecodeJSON(body, review); err != nil {
		return nil, err
	}
	if review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Request == nil || review.Request.UID == "" {
		return nil, fmt.Errorf("want an AdmissionReview of %s with a request that has a uid", admissionv1.SchemeGroupVersion)
	}
	return review, nil
}

// Write sends the response to a review. It returns the error of a client that does not read it.
func Write(w http.ResponseWriter, review *admissionv1.AdmissionReview, response *admissionv1.AdmissionResponse) error {
	response.UID = review.Request.UID
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: review.APIVersion, Kind: "AdmissionReview"}, Response: response,
	})
}

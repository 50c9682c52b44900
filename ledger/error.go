package ledger

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Violation is what is wrong with one field of a request.
type Violation struct {
	// Field is the path of the field as the API spells it, such as "amount" or "entries[1].account".
	Field string
	// Message says what is wrong and what would be right.
	Message string
}

// Error is a typed error of Khata. Everything in it may be shown to the caller.
type Error struct {
	Code    Code
	Message string
	// Violations names the fields at fault, or, with CodeAlreadyExists, the fields that differ from the record. It is
	// empty where the caller may not learn them.
	Violations []Violation
	// RetryAfter is how long to wait before trying again; zero leaves it to the caller.
	RetryAfter time.Duration
}

// Error gives the message and the fields at fault.
func (e *Error) Error() string {
	if len(e.Violations) == 0 {
		return e.Message
	}
	parts := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		parts[i] = v.Field + ": " + v.Message
	}
	return e.Message + ": " + strings.Join(parts, "; ")
}

// Unwrap makes errors.Is(err, code) work.
func (e *Error) Unwrap() error { return e.Code }

// Errorf makes an Error from a code and a format.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalid makes a CodeInvalidArgument error about one field.
func Invalid(field, format string, args ...any) *Error {
	return violation(CodeInvalidArgument, field, format, args...)
}

// Missing makes a CodeNotFound error about the field that names what is not there.
func Missing(field, format string, args ...any) *Error {
	return violation(CodeNotFound, field, format, args...)
}

func violation(code Code, field, format string, args ...any) *Error {
	return &Error{
		Code:       code,
		Message:    code.Error(),
		Violations: []Violation{{Field: field, Message: fmt.Sprintf(format, args...)}},
	}
}

// CodeOf returns the code of err: its own where it has one, CodeInternal otherwise, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var code Code
	if errors.As(err, &code) {
		return code
	}
	return CodeInternal
}

// maxViolations is how many fields an error names. An answer with thousands of them does not fit what gRPC and proxies let
// through, and the caller would be told something else.
const maxViolations = 10

// capped leaves out the violations beyond maxViolations, and says so.
func (e *Error) capped() *Error {
	more := len(e.Violations) - maxViolations
	if more <= 0 {
		return e
	}
	few := *e
	few.Message += fmt.Sprintf(" (and %d more than are named)", more)
	few.Violations = e.Violations[:maxViolations:maxViolations]
	return &few
}

// At puts a path before the fields that err is about: an error about "type" of the fourth account of a call is about
// "accounts[3].type". An error without fields is returned as it is.
func At(path string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	return e.rename(func(field string) string { return path + "." + field })
}

// Within takes a path, its dot included, off the fields that err is about: it undoes At where a list of one was made for
// a single thing.
func Within(path string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	return e.rename(func(field string) string { return strings.TrimPrefix(field, path) })
}

// rename gives the error with its fields called otherwise.
func (e *Error) rename(name func(string) string) *Error {
	renamed := *e
	renamed.Violations = make([]Violation, len(e.Violations))
	for i, v := range e.Violations {
		renamed.Violations[i] = Violation{Field: name(v.Field), Message: v.Message}
	}
	return &renamed
}

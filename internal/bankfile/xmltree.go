package bankfile

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
)

// node is an element of XML, without its namespace: versions of a message differ in it, and banks do as well.
type node struct {
	name string
	// text is that of the element itself, spaces around it taken off.
	text string
	// currency is the attribute Ccy, the only one that statements have.
	currency string
	kids     []*node
}

// maxDepth is how deep elements may stand in each other. Statements have about fifteen.
const maxDepth = 64

// xmlReader reads XML element by element, in bounded memory.
type xmlReader struct {
	dec    *xml.Decoder
	budget *budget
}

// position is the line of the text that was read last.
func (x *xmlReader) position() int {
	line, _ := x.dec.InputPos()
	return line
}

// token reads a token. At the end of the document it returns io.EOF.
func (x *xmlReader) token() (xml.Token, error) {
	token, err := x.dec.RawToken()
	var syntax *xml.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, malformed(syntax.Line, "it is not XML: %s", syntax.Msg)
	case err != nil && !errors.Is(err, io.EOF) && x.isContent(err):
		return nil, malformed(x.position(), "it is not XML that can be read: %s", err)
	}
	return token, err
}

// isContent reports whether an error is about the content: an encoding that is not known is one that package xml gives no type.
func (x *xmlReader) isContent(err error) bool {
	var refused *Refusal
	return !errors.As(err, &refused) && strings.HasPrefix(err.Error(), "xml:")
}

var errCut = "the XML ends before its elements do"

// tree reads the rest of an element whose start was read, at some depth. Of each child that hook takes, nothing is kept; hook may be nil.
func (x *xmlReader) tree(start xml.StartElement, depth int, hook func(*node) (took bool, err error)) (*node, error) {
	n := &node{name: start.Name.Local}
	if depth > maxDepth {
		return nil, malformed(x.position(), "elements stand more than %d deep in each other", maxDepth)
	}
	for _, attr := range start.Attr {
		if attr.Name.Local == "Ccy" {
			n.currency = strings.TrimSpace(attr.Value)
		}
	}
	var text []byte
	for {
		token, err := x.token()
		if errors.Is(err, io.EOF) {
			return nil, malformed(x.position(), "%s", errCut)
		}
		if err != nil {
			return nil, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			kid, err := x.tree(token, depth+1, hook)
			if err != nil {
				return nil, err
			}
			took := false
			if hook != nil {
				if took, err = hook(kid); err != nil {
					return nil, err
				}
			}
			if !took {
				n.kids = append(n.kids, kid)
			}
		case xml.EndElement:
			if token.Name.Local != start.Name.Local {
				return nil, malformed(x.position(), "element %.40q ends as %.40q", start.Name.Local, token.Name.Local)
			}
			n.text = strings.TrimSpace(string(text))
			return n, nil
		case xml.CharData:
			text = append(text, token...)
		}
	}
}

// find goes down by the names of elements, the first of each; nil if there is none.
func (n *node) find(path ...string) *node {
	for _, name := range path {
		if n == nil {
			return nil
		}
		var next *node
		for _, kid := range n.kids {
			if kid.name == name {
				next = kid
				break
			}
		}
		n = next
	}
	return n
}

// get is the text of what find finds, "" if there is none.
func (n *node) get(path ...string) string {
	if found := n.find(path...); found != nil {
		return found.text
	}
	return ""
}

// all gives the children of a name.
func (n *node) all(name string) []*node {
	var found []*node
	if n != nil {
		for _, kid := range n.kids {
			if kid.name == name {
				found = append(found, kid)
			}
		}
	}
	return found
}

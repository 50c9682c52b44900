package server

// Methods lists the full names of all gRPC methods that are served.
func (s *Server) Methods() []string {
	var list []string
	for name, info := range s.grpc.GetServiceInfo() {
		for _, m := range info.Methods {
			list = append(list, "/"+name+"/"+m.Name)
		}
	}
	return list
}

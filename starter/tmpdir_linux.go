package starter

func (s *Shepherd) checkTmpdir()  {}
func (s *Shepherd) removeTmpdir() {}

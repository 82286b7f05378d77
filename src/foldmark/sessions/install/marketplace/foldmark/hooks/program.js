// The path of the program `foldmark`.
export const PROGRAM = "{program}"

// The program that the hooks run: written by `foldmark install claude`.
export const PROGRAM = {foldmark}

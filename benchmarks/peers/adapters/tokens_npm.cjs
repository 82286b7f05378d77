// Tokens by a package from npm: reads {package, model, messages} from the standard input and writes a count for each
// message. It runs in the folder of the package's environment.
const load = require("node:module").createRequire(process.cwd() + "/");
const { package: name, model, messages } = JSON.parse(require("node:fs").readFileSync(0, "utf8"));

const textOf = (part) =>
  part.type === "text" ? part.text
  : part.type === "tool-call" ? part.toolName + JSON.stringify(part.input)
  : part.output;

function counter() {
  if (name === "@anthropic-ai/tokenizer") {
    const { countTokens } = load(name);
    return (message) => message.content.reduce((sum, part) => sum + countTokens(textOf(part)), 0);
  }
  const { default: Tokenizer, models } = load("ai-tokenizer");
  const known = models[model];
  if (!known) throw new Error(`ai-tokenizer has no model ${model}`);
  const tokenizer = new Tokenizer(load("ai-tokenizer/encoding")[known.encoding]);
  const { count } = load("ai-tokenizer/sdk");
  return (message) => count({ tokenizer, model: known, messages: [message] }).messages[0].total;
}

console.log(JSON.stringify(messages.map(counter())));

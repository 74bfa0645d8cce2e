/** The measured server on standard input and output, stateful era. Argument: how many tools it has. */
import { type Asked, answerJson, resultJson, toolsJson } from './answers.ts';

const tools = toolsJson(Number(process.argv[2] ?? 2));
let rest = '';

process.stdin.setEncoding('utf8').on('data', (chunk: string) => {
  const lines = (rest + chunk).split('\n');
  rest = lines.pop()!;
  let out = '';
  for (const line of lines) {
    if (line === '') continue;
    const asked = JSON.parse(line) as Asked;
    if (asked.id !== undefined && asked.method !== undefined)
      out += `${answerJson(asked, resultJson(asked, tools, ''))}\n`;
  }
  if (out !== '') process.stdout.write(out);
});
process.stdin.on('end', () => process.exit());

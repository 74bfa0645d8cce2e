import type { Node } from '../document/node.ts';
import type { FieldReader } from './field-reader.ts';

/** `<your token>`, `YOUR_API_KEY`, `xxxx`, `...`, `{{TOKEN}}`, with or without a scheme such as `Bearer`. */
const PLACEHOLDER =
  /^(?:(?:Bearer|Basic|Token) )?(?:<[^<>]+>|\{\{ ?[\w.]+ ?\}\}|your[_-][\w-]*|[\w-]*_HERE|x{3,}|\*{3,}|\.{3}|…)$/i;
const SHELL_NAME = /^(?:(?:Bearer|Basic|Token) )?(\$([A-Z_]{2,})|%([A-Z_]{2,})%)$/;

/** Warns of a value of `env` or `headers` that is a placeholder of an example, or that only a shell would expand. */
export function warnOfPlaceholder(fields: FieldReader, node: Node, path: string, text: string | null): void {
  if (text === null || node.kind !== 'string' || node.text !== text) return;
  const [, shown, unix, windows] = SHELL_NAME.exec(text) ?? [];
  if (shown !== undefined) {
    const message = `${path} is ${JSON.stringify(shown)} literally: only a shell would expand it`;
    fields.warn('TL1312', node, message, `write \${${unix ?? windows}}`);
  } else if (PLACEHOLDER.test(text)) {
    fields.warn('TL1312', node, `${path} is the placeholder of an example`);
  }
}

/**
 * Writes the files that are generated from the source: the JSON Schema of the configuration, its documentation and its
 * types, the OpenAPI document of the control API, the console's client of it, the page on compatibility, the list of requirements that tests cite, and the
 * WebAssembly module of `protocol/escaped-text`.
 * With `--check` it writes nothing, names the files that differ and exits 1.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { citations } from '../test/e2e/citations.ts';
import { compatibilityText } from '../test/e2e/matrix/compatibility-text.ts';
import { REQUIREMENTS } from '../test/e2e/requirements.ts';
import { withModule } from './escaped-text-module.ts';
import { clientText } from './schema/client-text.ts';
import { docsText } from './schema/docs-text.ts';
import { openApi } from './schema/openapi.ts';
import { schemaText } from './schema/schema-files.ts';
import { typesText } from './schema/types-text.ts';

const root = join(import.meta.dirname, '..');
const schema = schemaText();
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
const cited = citations();
const SHORT_LIST = /\[\n\s+([^[\]{}]{1,400}?)\n\s+\]/g;
const document = openApi(version);
const openApiText = JSON.stringify(document, null, 2).replaceAll(
  SHORT_LIST,
  (_, items: string) => `[${items.replaceAll(/\n\s+/g, ' ')}]`,
);
const covered = REQUIREMENTS.map(({ id }) => id).filter((id) => cited.has(id));

const generated: Readonly<Record<string, string>> = {
  'schema/config.schema.json': schema,
  'schema/openapi.json': `${openApiText}\n`,
  'ui/src/api/operations.ts': clientText(JSON.parse(JSON.stringify(document))),
  'docs/config.md': docsText(JSON.parse(schema)),
  'docs/reference/compatibility.md': compatibilityText(),
  'schema/config-input.d.ts': typesText(JSON.parse(schema)),
  'src/protocol/escaped-text.ts': withModule(readFileSync(join(root, 'src/protocol/escaped-text.ts'), 'utf8')),
  'test/e2e/covered.json': `${JSON.stringify(covered, null, 2)}\n`,
};

function current(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}

const different = Object.entries(generated).filter(([name, text]) => current(join(root, name)) !== text);
if (process.argv.includes('--check')) {
  for (const [name] of different) console.error(`${name} is not what the source generates: npm run generate`);
  process.exitCode = different.length === 0 ? 0 : 1;
} else {
  for (const [name, text] of different) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), text);
    console.log(`wrote ${name}`);
  }
}

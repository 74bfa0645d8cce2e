import assert from 'node:assert/strict';
import { test } from 'node:test';
import { splice } from '../protocol/splice.ts';
import { appScriptEdits } from './app-script.ts';

const TOOLS = [
  { server: 'react', exposed: 'react__get-time', item: { key: 'get-time', bytes: Buffer.from('{"name":"get-time"}') } },
];
const TYPE = 'text/html;profile=mcp-app';

function withScript(json: string): { text?: string; blob?: string } {
  const bytes = Buffer.from(json);
  const edits = appScriptEdits(bytes, { start: 0, end: bytes.length }, 'react', () => TOOLS);
  return JSON.parse(splice(bytes, edits).toString());
}

/** The document with a mark in place of the script. */
function marked(html: string): string {
  const at = html.indexOf('<script>((');
  const end = html.indexOf('</script>', at);
  return at < 0 ? html : `${html.slice(0, at)}|${html.slice(end + '</script>'.length)}`;
}

const DOCUMENTS = [
  ['<!DOCTYPE html>|', '<html><script>1</script></html>'],
  ['\ufeff \n\t<!-- a > b --><!--<!doctype x>-->\r\n<!doctype html PUBLIC "-//W3C//DTD">|', ' \n<html>'],
  ['|', '<html><!doctype html>'],
  ['<!-- a -->|', ''],
  ['|', '<!-- open'],
] as const;

test('the script is before the document, after its doctype; the rest is the server’s', () => {
  for (const [before, rest] of DOCUMENTS) {
    const html = before.replace('|', '') + rest;
    const escaped = JSON.stringify(html)
      .replaceAll('<', '\\u003C')
      .replaceAll('>', '\\u003e')
      .replaceAll('\ufeff', '\\uFEFF');
    for (const text of [JSON.stringify(html), escaped]) {
      const content = withScript(`{"uri":"ui://x","mimeType":"${TYPE}","text":${text}}`);
      assert.equal(marked(content.text!), before + rest);
    }
    const blob = Buffer.from(html).toString('base64');
    const content = withScript(`{"blob":"${blob}","mimeType":"text/html; Profile=\\"mcp-app\\""}`);
    assert.equal(marked(Buffer.from(content.blob!, 'base64').toString()), before + rest);
  }
});

test('text that is no app, or is missing, stays unchanged', () => {
  for (const json of [
    '{"mimeType":"text/html","text":"<html>"}',
    '{"mimeType":"text/html;profile=mcp-apps","text":"<html>"}',
    `{"mimeType":"${TYPE}","text":7}`,
    `{"mimeType":"${TYPE}"}`,
    '{"text":"<html>"}',
  ]) {
    assert.deepEqual(withScript(json), JSON.parse(json));
  }
});

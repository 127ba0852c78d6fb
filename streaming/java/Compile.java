import java.io.File;
import java.io.FileOutputStream;
import java.util.Iterator;
import java.util.Map;

import org.codehaus.janino.SimpleCompiler;

/** Compiles a source file (first argument) into a folder (second). */
public class Compile {

    public static void main(String[] arguments) throws Exception {
        SimpleCompiler compiler = new SimpleCompiler();
        compiler.cookFile(new File(arguments[0]));
        Iterator classes = compiler.getBytecodes().entrySet().iterator();
        while (classes.hasNext()) {
            Map.Entry one = (Map.Entry) classes.next();
            File file = new File(arguments[1], ((String) one.getKey()).replace('.', '/') + ".class");
            file.getParentFile().mkdirs();
            FileOutputStream out = new FileOutputStream(file);
            out.write((byte[]) one.getValue());
            out.close();
        }
    }
}
